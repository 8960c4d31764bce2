"""What the fuzzing tests share: how many inputs, how ours are spoiled, and what an input may lead to."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from harness.errors import UserError

EXAMPLES = int(os.environ.get("PLACERL_FUZZ_EXAMPLES", "300"))
many = settings(
    max_examples=EXAMPLES,
    deadline=30_000,  # ms: an input that takes longer counts as a hang
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
# One process tries them all, so the limit is that of the whole.
whole = pytest.mark.timeout(max(300, EXAMPLES // 10))

TOKENS = [
    *(b"[ ] [[ ]] { } = , . - + _ e nan inf -inf true 0x 1e999 -1 0 1_000_000_000_000_000_000_000").split(),
    *(
        b"\" ' \"\"\" ''' \\ \\u0000 \\U00110000 \n \r \t \0 \xff \xc3 \xe2\x80\xa8 # <script> ../../etc/passwd"
    ).split(b" "),
    *(b"1979-05-27 07:32:00 [training] [[stands_for]] name batch_size __class__ os:system-v0").split(),
]


@st.composite
def edited(draw, originals):
    """A file of ours after some edits: parts cut out, doubled, moved, or replaced by tokens and noise."""
    content = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        part = draw(st.sampled_from(TOKENS) | st.binary(max_size=8) | st.just(bytes(content[start:end]) * 2))
        content[start:end] = part
    return bytes(content)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def accepted(action):
    """What an action returns; None when it refuses with one line. Any other exception is the test's failure."""
    try:
        return action()
    except UserError as error:
        line = str(error)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 2000
    return None
