"""The buffer, compared with RLlib's own in RLlib's environment."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.primitives.replay.adapters.library_checks import Ask, suite

ask, test_rllib = suite("rllib", "rllib_checks.py", "rllib_state_checks.py", "rllib_training_checks.py")

ADD = st.tuples(
    st.just("add"), st.integers(0, 4), st.integers(1, 6), st.sampled_from(["", "", "terminated", "truncated"])
)
OPERATIONS = st.lists(
    st.one_of(ADD, ADD, st.sampled_from([("sample",), ("sample",), ("copy",), ("pickle",), ("state",)])),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=OPERATIONS, capacity=st.integers(1, 20), alpha=st.sampled_from([0.0, 1.0, 2.0]))
def test_any_sequence_of_calls_has_the_results_of_rllibs_own_buffer(
    ask: Ask, operations: list[tuple], capacity: int, alpha: float
) -> None:
    ask("check_a_sequence", operations=operations, capacity=capacity, alpha=alpha)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "sac"])
def test_rllibs_algorithms_update_priorities_and_go_on_from_a_state(ask: Ask, algorithm: str) -> None:
    ask("check_training", algorithm=algorithm)
