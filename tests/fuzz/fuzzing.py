"""What the fuzzing tests share: how many inputs, how ours are spoiled, and what an input may lead to.

Hypothesis draws what an input is spoiled with: values, texts, bytes, and the seed of a plain generator, which then
makes `A_DRAW` inputs of them. To draw each decision of each input would take ten times as long as to try it. What fails
is shrunk and printed as ever.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from math import ceil
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError

EXAMPLES = int(os.environ.get("PLACERL_FUZZ_EXAMPLES", "1000"))
A_DRAW = 20
TRIED: Counter[str] = Counter()
"""Inputs by the test that has tried them."""
many = settings(
    max_examples=ceil(EXAMPLES / A_DRAW),
    deadline=None,  # a busy machine or a slow disk fails no test; `whole` ends one that hangs
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
# One process tries them all, so the limit is that of the whole.
whole = pytest.mark.timeout(max(900, EXAMPLES // 10))

_T = TypeVar("_T")
TOKENS = [
    *(b"[ ] [[ ]] { } = , . - + _ e nan inf -inf true 0x 1e999 -1 0 1_000_000_000_000_000_000_000").split(),
    *(
        b"\" ' \"\"\" ''' \\ \\u0000 \\U00110000 \n \r \t \0 \xff \xc3 \xe2\x80\xa8 # <script> ../../etc/passwd"
    ).split(b" "),
    *(b"1979-05-27 07:32:00 [training] [[stands_for]] name batch_size __class__ os:system-v0").split(),
]


generators = st.integers(0, 2**64 - 1).map(Random)


def several(strategy, number=5):
    """A few of something, for the inputs of one draw."""
    return st.lists(strategy, min_size=number, max_size=number)


@st.composite
def edited(draw, originals):
    """Files of ours after some edits: parts cut out, doubled, moved, or replaced by tokens and noise."""
    rng, noise = draw(generators), draw(several(st.binary(max_size=8)))
    return [_edit(rng, bytearray(rng.choice(originals)), noise) for _ in range(A_DRAW)]


def _edit(rng, content, noise):
    for _ in range(rng.randint(1, 6)):
        start = rng.randint(0, len(content))
        end = min(len(content), start + rng.randint(0, 40))
        content[start:end] = rng.choice((rng.choice(TOKENS), rng.choice(noise), content[start:end] * 2))
    return bytes(content)


def each(inputs: Iterable[_T]) -> Iterator[_T]:
    """The inputs of a draw, one after the other; the last one that a failure prints is the one that failed."""
    test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split()[0]
    for one in inputs:
        note(repr(one))
        TRIED[test] += 1
        yield one


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
