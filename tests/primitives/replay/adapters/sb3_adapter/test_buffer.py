"""The buffer, compared with SB3's own buffers in SB3's environment."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.primitives.replay.adapters.library_checks import Ask, suite

ask, test_sb3 = suite(
    "sb3",
    "sb3_adapter/buffer_checks.py",
    "sb3_adapter/priority_checks.py",
    "sb3_adapter/device_checks.py",
)

ENDS = st.lists(st.sampled_from((0, 0, 0, 1, 2)), min_size=3, max_size=3)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ENDS),
        st.tuples(st.just("add"), ENDS),
        st.sampled_from([("sample",), ("reset",), ("save",), ("copy",)]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    check=st.sampled_from(["check_a_sequence", "check_a_sequence_on_a_device"]),
    operations=OPERATIONS,
    observation=st.sampled_from(["box", "image", "discrete", "dict", "mixed"]),
    buffer_size=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    n_steps=st.integers(1, 4),
    timeouts=st.booleans(),
    normalized=st.booleans(),
)
def test_any_sequence_of_calls_has_the_results_of_sb3s_own_buffer(
    ask: Ask, check: str, observation: str, n_steps: int, normalized: bool, **rest: Any
) -> None:
    dictionary = observation in ("dict", "mixed")
    ask(
        check,
        observation=observation,
        action="discrete" if observation == "image" else "box",
        n_steps=1 if dictionary else n_steps,  # SB3 has no n-step returns of dictionaries
        normalized=normalized and observation in ("box", "image", "dict"),
        **rest,
    )


@pytest.mark.gpu
def test_the_host_does_not_wait_for_the_statistics_of_vec_normalize(ask: Ask) -> None:
    ask("check_the_host_does_not_wait_for_statistics", where="cuda")
