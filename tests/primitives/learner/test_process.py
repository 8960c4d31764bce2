"""A learner belongs to the process that created it: a forked copy refuses every call by name, and never hangs."""

import os
from collections.abc import Callable

import numpy as np
import pytest

from placerl.primitives import learner
from placerl.primitives.learner import Learner
from tests.forked import outcomes
from tests.primitives.quantization import cases

KINDS = [
    *(
        pytest.param(status.name, {}, id=status.name)
        for status in learner.backends()
        if status.available and not status.simulated
    ),
    pytest.param("torch", {"mode": "eager"}, id="torch-eager"),
    pytest.param("native", {"threads": 2}, id="native-threads"),
    *(
        pytest.param(backend, {"precision": "fixed32"}, id=f"{backend}-fixed32")
        for backend in ("native", "reference", "torch")
    ),
]


def calls_of(made: Learner) -> dict[str, Callable[[], object]]:
    """A call of every public method, by name; `policy` has nothing of the process."""
    rng = np.random.default_rng(0)
    batch = cases.batch(made.algorithm, rng)
    observation, state = batch["observation"], made.state_dict()
    calls = {
        "step": lambda: made.step(batch),
        "act": lambda: made.act(observation),
        "explore": lambda: made.explore(observation, 0, rng),
        "acting_td_errors": lambda: made.acting_td_errors(batch),
        "parameters": made.parameters,
        "policy_parameters": made.policy_parameters,
        "state_dict": made.state_dict,
        "load_state_dict": lambda: made.load_state_dict(state),
    }
    methods = {name for name, value in vars(Learner).items() if callable(value) and not name.startswith("_")}
    assert calls.keys() == methods - {"policy"}
    return calls


@pytest.mark.parametrize(("backend", "options"), KINDS)
def test_a_forked_learner_refuses_by_name(backend: str, options: dict[str, object]) -> None:
    trainee = learner.create(cases.algorithm("dqn"), backend=backend, batch_size=cases.BATCH_SIZE, **options)
    calls = calls_of(trainee)
    calls["step"]()
    found = dict(zip(calls, outcomes(calls.values()), strict=True))
    refusal = f"RuntimeError: this {type(trainee).__name__} belongs to process {os.getpid()}, found "
    assert {name for name, one in found.items() if not one.startswith(refusal)} == set(), found
    calls["step"]()
