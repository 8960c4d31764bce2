"""What workers say: each line is a result, or a failure of the promised kind."""

import json
from math import inf, isfinite, nan

from hypothesis import given
from hypothesis import strategies as st

from placerl.harness.compare import protocol
from tests.fuzz.fuzzing import A_DRAW, each, edited, generators, many, several, values, whole

pytestmark = whole


class Deaf(protocol.Worker):
    """A worker without a process: only what it says is judged."""

    def __init__(self, says):
        self._stderr = protocol.LastLines()
        self._says = says
        self.closed = False

    def _exchange(self, request, deadline_s, limit_s):
        return self._says

    def close(self, grace_s=0.0):
        self.closed = True
        return 0


def judged(line, ask):
    """How a line failed, or what it says."""
    worker = Deaf(line)
    try:
        return None, ask(worker)
    except protocol.WorkerFailure as failure:
        assert worker.closed, "nothing of it is left"
        for said in (str(failure), *failure.last_lines):
            assert said.isprintable(), "one line, and none that a terminal obeys"
        return failure.kind, None


JOB = protocol.WorkerJob(workload={}, batch_size=1, seed=0, gradient_steps=1)
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
    fields = [*GOOD_ANSWER, "terms_s", "error", "x"]
    found += [{"a": nan}, {"a": inf}, [nan], 10**400, 5e-324, "\x1b[2J\nsaid", "\ud800"]
    changes = (
        {rng.choice(fields): rng.choice(found) for _ in range(rng.randint(0, 6))} for _ in range(A_DRAW)
    )
    return [json.dumps({**GOOD_ANSWER, **change}).encode() for change in changes]


@many
@given(several(st.binary(max_size=100), A_DRAW) | answers() | edited([json.dumps(GOOD_ANSWER).encode()]))
def test_worker_answers(lines):
    for line in each(lines):
        kind, result = judged(line, lambda worker: worker.ask(JOB, 1))
        assert kind in (None, protocol.FailureKind.INVALID, protocol.FailureKind.REFUSED)
        if result is not None:
            assert result.gradient_steps / result.wall_s > 0
            assert isfinite(result.environment_steps / result.wall_s)
            assert all(map(isfinite, [*result.episode_returns, *result.terms_s.values()]))


@many
@given(
    several(st.binary(max_size=100), A_DRAW)
    | answers()
    | edited(
        [json.dumps(GOOD_ANSWER).encode(), b'{"error": "no \\ud83d\\ude00"}', b'{"a": ' * 9999, b"[" * 9999]
    )
)
def test_worker_answers_of_another_kind(lines):
    for line in each(lines):
        kind, answer = judged(line, lambda worker: worker.ask_json({}, 1))
        assert kind in (None, protocol.FailureKind.INVALID, protocol.FailureKind.REFUSED)
        if answer is not None:
            assert json.dumps(answer, ensure_ascii=False, allow_nan=False).encode(), "a store can hold it"


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
        noise = protocol.LastLines()
        for part in parts:
            noise.feed(part)
        lines = noise.lines()
        assert len(lines) <= protocol.LAST_LINES
        assert all(len(line) <= protocol.MAX_LINE_CHARACTERS and line.isprintable() for line in lines)
