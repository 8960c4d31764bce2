"""States what launches and synchronisation take of training on a GPU (PPO 2.4), for which an experiment is missing."""

from placerl.harness.papers.base import Claim
from placerl.harness.papers.number import from_text


class LaunchesTakeMostOfGpu(Claim):
    key, place, position = "PPO-2.4", "2.4", 16
    statement = "Launches and synchronisation take most of a small PPO training on a GPU"
    published = from_text("PPO.gpu_overhead_mlp", "PPO.gpu_overhead_cnn")
    needs = (
        "a CUDA device, and an experiment that traces launches, synchronisation and kernels of training on it, which "
        "this project lacks"
    )
