"""What workers say: each line is a result, or a failure of the promised kind."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harness import workers
from tests.fuzz.fuzzing import edited, many, values, whole

pytestmark = whole


class Deaf(workers.Worker):
    """A worker without a process: only what it says is judged."""

    def __init__(self):
        self._stderr = workers.LastLines()

    def close(self, grace_s=0.0):
        return 0


def judged(line):
    """How a line failed, or what it says."""
    try:
        return None, Deaf()._parse(line)
    except workers.WorkerFailure as failure:
        return failure.kind, None


GOOD_ANSWER = {
    "gradient_steps": 1,
    "environment_steps": 1,
    "wall_s": 0.5,
    "episode_returns": [1.0],
    "versions": {},
}
answers = st.dictionaries(st.sampled_from([*GOOD_ANSWER, "error", "x"]), values, max_size=6).map(
    lambda change: json.dumps({**GOOD_ANSWER, **change}).encode()
)


@many
@given(st.binary(max_size=100) | answers | edited([json.dumps(GOOD_ANSWER).encode()]))
def test_worker_answers(line):
    kind, result = judged(line)
    assert kind in (None, workers.FailureKind.RUBBISH, workers.FailureKind.REFUSED)
    if result is not None:
        assert result.gradient_steps >= 1
        assert result.wall_s > 0


@many
@given(st.lists(st.binary(max_size=3000), max_size=6))
def test_worker_noise(parts):
    noise = workers.LastLines()
    for part in parts:
        noise.feed(part)
    lines = noise.lines()
    assert len(lines) <= workers.LAST_LINES
    assert all(len(line) <= workers.MAX_LINE_CHARACTERS for line in lines)
