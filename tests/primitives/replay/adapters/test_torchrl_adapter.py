"""The sampler, compared with TorchRL's own in TorchRL's environment."""

import pytest

from tests.primitives.replay.adapters.library_checks import Ask, suite

ask, test_torchrl = suite("torchrl", "torchrl_checks.py")


@pytest.mark.gpu
def test_on_cuda_the_host_does_not_wait(ask: Ask) -> None:
    ask("check_the_host_does_not_wait", where="cuda")
