"""Training of a network that policy and value share, timed beside that of two (PPO 5.3.1)."""

from types import SimpleNamespace

import numpy as np
import pytest

from harness import workloads
from harness.papers.ppo import shared_trunk


def test_shared_networks_are_one_body_with_two_heads() -> None:
    item = workloads.load("hopper-ppo")
    shared, separate = (shared_trunk.algorithm(item, shared=each) for each in (True, False))
    sizes = {name: [layer.weight_shape for layer in one.layers] for name, one in shared.networks.items()}
    assert sizes == {"trunk": [(64, 11), (64, 64)], "policy": [(3, 64)], "value": [(1, 64)]}
    assert shared.hyperparameters == separate.hyperparameters
    assert (shared.variants, separate.variants) == (("full",), ("full", "value"))
    with pytest.raises(ValueError, match="a workload of PPO"):
        shared_trunk.algorithm(workloads.load("cartpole-dqn"), shared=True)


@pytest.mark.parametrize("shared", [True, False])
def test_a_step_is_checked_against_pytorch(shared: bool) -> None:
    item = workloads.load("hopper-ppo")
    case = shared_trunk.case(item, 64, "step", shared=shared)
    made = case.setup()
    case.check(made)
    with pytest.raises(AssertionError):
        case.check(made)  # which has learnt, where PyTorch begins anew
    nothing = SimpleNamespace(step=lambda batch: SimpleNamespace(td_errors=np.zeros(64), losses={}))
    with pytest.raises(AssertionError):
        case.check(nothing)  # type: ignore[arg-type]
    case.close(made)


def test_every_side_is_timed() -> None:
    made = shared_trunk.measured(("hopper-ppo",), (64,), 0.0, lambda *_: None)
    told = [(row.details["shared"], row.details["null"]) for row in made]
    assert told == [(True, False), (True, True), (False, False)]
    assert all(row.status in ("ok", "too_noisy") for row in made), [row.reason for row in made]
