"""What workers say: each line is a result, or a failure of the promised kind."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harness import workers
from tests.fuzz.fuzzing import A_DRAW, each, edited, generators, many, several, values, whole

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


@st.composite
def answers(draw):
    """Good answers with some fields replaced or added."""
    rng, found = draw(generators), draw(several(values))
    fields = [*GOOD_ANSWER, "error", "x"]
    changes = (
        {rng.choice(fields): rng.choice(found) for _ in range(rng.randint(0, 6))} for _ in range(A_DRAW)
    )
    return [json.dumps({**GOOD_ANSWER, **change}).encode() for change in changes]


@many
@given(several(st.binary(max_size=100), A_DRAW) | answers() | edited([json.dumps(GOOD_ANSWER).encode()]))
def test_worker_answers(lines):
    for line in each(lines):
        kind, result = judged(line)
        assert kind in (None, workers.FailureKind.RUBBISH, workers.FailureKind.REFUSED)
        if result is not None:
            assert result.gradient_steps >= 1
            assert result.wall_s > 0


@st.composite
def streams(draw):
    """What a process may print, in the parts in which it arrives."""
    rng, ends = draw(generators), draw(several(st.binary(max_size=8)))

    def part():
        return rng.randbytes(rng.choice((0, 3, 400, 3000))) + rng.choice((b"\n", b"\r\n", *ends))

    return [[part() for _ in range(rng.randint(0, 6))] for _ in range(A_DRAW)]


@many
@given(streams())
def test_worker_noise(inputs):
    for parts in each(inputs):
        noise = workers.LastLines()
        for part in parts:
            noise.feed(part)
        lines = noise.lines()
        assert len(lines) <= workers.LAST_LINES
        assert all(len(line) <= workers.MAX_LINE_CHARACTERS for line in lines)
