"""Checks what launches and synchronisation take of a small PPO training on a GPU (PPO 2.4)."""

import pandas as pd

from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.evidence import number, rows_of
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.ppo import launches

MOST = 0.5


class LaunchesTakeMostOfGpu(Claim):
    """Checks PPO 2.4: launching kernels and synchronising take most of the gradient steps of a small network on a GPU.

    Judged is the step as PyTorch launches it, operation by operation, of Hopper's network. PPO does not say what its
    share is of: one reading (`launches.SHARES`) that agrees is enough, and only all of them refute it. The share of
    steps that are launched as one graph, which PPO does not use, is listed.
    """

    key, place, position = "PPO-2.4", "2.4", 15
    statement = "Launches and synchronisation take most of a small PPO training on a GPU"
    published = from_text("PPO.gpu_overhead_mlp", "PPO.gpu_overhead_cnn")
    needs = "a CUDA device, and a trace of PPO's gradient steps on it (claim/PPO-2.4, `placerl gpu-claims`)"
    measured_by = (launches.cells,)
    commands = ("placerl gpu-claims --minutes 12", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        shares: dict[tuple[str, str], dict[str, Number]] = {}
        counts: list[Number] = []
        for quantity in sorted(launches.EXPERIMENT.quantities):
            for row in rows_of(frame, launches.EXPERIMENT, quantity):
                if not row.device.startswith(launches.GPU):
                    continue
                traced = row.parameters
                where = f"{traced.benchmark}, {traced.mode}"
                if quantity == launches.SHARE:
                    title = f"{where}: launches and synchronisation, share {traced.share}"
                    shares.setdefault((traced.benchmark, traced.mode), {})[traced.share] = number(row, title)
                else:
                    counts.append(number(row, f"{where}: {quantity.replace('_', ' ')}"))
        ours = (*(share for some in shares.values() for share in some.values()), *counts)
        judged = list(shares.get(("Hopper", launches.EAGER), {}).values())
        if len(judged) < len(launches.SHARES):
            return Finding(Outcome.NOT_RUN, ours, needs=self.needs)
        convolutions = list(shares.get(("Pong", launches.EAGER), {}).values())
        said = (
            f"With PyTorch's operations launched one by one, launches and synchronisation take "
            f"{' and '.join(f'{share.value:.0%}' for share in judged)} of Hopper's gradient steps, by the two readings."
        )
        layers, cnn = (each.value / 100 for each in self.published)
        as_published = all(share.above(layers) for share in judged) and all(
            share.above(cnn) for share in convolutions
        )
        if convolutions and as_published:
            return Finding(Outcome.REPRODUCED, ours, said)
        if all(share.above(MOST) for share in judged):
            return Finding(Outcome.IN_KIND, ours, said)
        if any(share.above(MOST) for share in judged):
            return Finding(Outcome.CONSISTENT, ours, said)
        refuted = all(share.below(MOST) for share in judged)
        return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, ours, said)
