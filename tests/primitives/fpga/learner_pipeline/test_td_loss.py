"""The loss unit of TD errors against its golden model, and the golden model against PyTorch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, FRACTION
from placerl.primitives.fpga.learner_pipeline.td_loss import LATENCY, TdLossUnit
from tests.primitives.fpga import restarted
from tests.primitives.fpga.learner_pipeline.golden import td_loss


def batch_of(rng: np.random.Generator, size: int, actions: int, extreme: bool) -> dict[str, np.ndarray]:
    bound = FORMAT.highest if extreme else 3 << FORMAT.fraction_bits
    values = {name: rng.integers(-bound, bound, (size, actions)) for name in ("outputs", "targets", "greedy")}
    return {
        **{name: value.astype(np.int32) for name, value in values.items()},
        "action": rng.integers(0, actions, size),
        "reward": rng.integers(-bound, bound, size).astype(np.int32),
        "discount": rng.integers(0, (1 << FRACTION.fraction_bits) + 1, size) * rng.integers(0, 2, size),
        "weight": rng.integers(0, (1 << FRACTION.fraction_bits) + 1, size),
    }


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1 << 20),
    actions=st.integers(1, 4),
    double=st.booleans(),
    huber=st.booleans(),
    extreme=st.booleans(),
    ready=st.lists(st.booleans(), min_size=1, max_size=5).filter(any),
)
def test_the_unit_gives_the_golden_models_errors(
    seed: int, actions: int, double: bool, huber: bool, extreme: bool, ready: list[bool]
) -> None:
    size = 12
    batch = batch_of(np.random.default_rng(seed), size, actions, extreme)
    terms = {name: batch[name] for name in ("action", "reward", "discount", "weight")}
    unit = restarted.interpreted(TdLossUnit, actions, double=double)
    unit.write("huber", int(huber))
    values = ("outputs", "targets", *(("greedy",) if double else ()))
    run = unit.run(
        {**{name: batch[name] for name in values}, "terms": terms},
        {"errors": size, "tds": size},
        ready={"errors": ready, "tds": [True]},
    )
    expected = td_loss(
        batch["outputs"],
        batch["targets"],
        terms,
        greedy=batch["greedy"] if double else None,
        huber=huber,
    )
    np.testing.assert_array_equal(run.outputs["errors"], expected.errors)
    np.testing.assert_array_equal(run.outputs["tds"], expected.tds)
    if all(ready):
        assert (run.output_cycles["errors"] - run.input_cycles["terms"] == LATENCY).all()


@pytest.mark.parametrize("huber", [True, False])
@pytest.mark.parametrize("double", [True, False])
def test_the_golden_model_is_the_gradient_of_the_weighted_loss(huber: bool, double: bool) -> None:
    batch = batch_of(np.random.default_rng(1), 40, 3, extreme=False)
    real = {name: torch.from_numpy(FORMAT.to_float(batch[name])) for name in ("outputs", "targets", "greedy")}
    reward = torch.from_numpy(FORMAT.to_float(batch["reward"]))
    discount, weight = (torch.from_numpy(FRACTION.to_float(batch[name])) for name in ("discount", "weight"))
    outputs = real["outputs"].requires_grad_()
    rows = torch.arange(40)
    by = real["greedy"] if double else real["targets"]
    target = reward + discount * real["targets"][rows, by.argmax(1)]
    td = target - outputs[rows, torch.from_numpy(batch["action"])]
    size = td.abs()
    cost = torch.where(size < 1, 0.5 * td**2, size - 0.5) if huber else td**2
    (weight * cost).sum().backward()
    found = td_loss(
        batch["outputs"], batch["targets"], batch, greedy=batch["greedy"] if double else None, huber=huber
    )
    assert outputs.grad is not None
    few = 4 * FORMAT.resolution
    np.testing.assert_allclose(FORMAT.to_float(found.errors), outputs.grad.numpy(), atol=few)
    np.testing.assert_allclose(FORMAT.to_float(found.tds), td.detach().numpy(), atol=few)
