"""Philox gives the published numbers, the same on the host and on every device."""

import numpy as np
import pytest

from placerl.primitives.device.philox import kernel_source
from tests.primitives.device.kinds import device_of, every_kind
from tests.primitives.device.nvrtc import ARCHITECTURES, compile_cubin
from tests.primitives.device.philox import philox, uniform

KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
"""Counter, key and result: the known-answer test of Random123, the authors' library."""
SOURCE = (
    kernel_source()
    + """
KERNEL(random_words)(GLOBAL UINT *words, UINT key_low, UINT key_high, LONG count) {
    const LONG b = WORK_ITEM;
    if (b >= count)
        return;
    UINT own[4];
    for (int i = 0; i < 4; ++i)
        own[i] = words[4 * b + i];
    philox(own, key_low, key_high);
    for (int i = 0; i < 4; ++i)
        words[4 * b + i] = own[i];
}
"""
)


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def on_device(kind: str, counters: np.ndarray, key: int) -> np.ndarray:
    one = device_of(kind)
    stream, kernel = one.stream(), one.kernels(SOURCE)["random_words"]
    buffer = stream.uploaded(counters.astype(np.uint32))
    keys = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    stream.launch(kernel, len(counters), buffer, *keys, np.int64(len(counters)))
    return stream.download(buffer, counters.shape, np.uint32)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_published_numbers(counter: str, key: str, result: str) -> None:
    low, high = words(key)
    assert philox([words(counter)], low | high << 32).tolist() == [words(result)]


@every_kind
def test_every_device_draws_the_same(kind: str) -> None:
    for counter, key, result in KNOWN:
        low, high = words(key)
        assert on_device(kind, np.array([words(counter)]), low | high << 32).tolist() == [words(result)]
    counters = np.random.default_rng(0).integers(0, 2**32, (1000, 4))
    np.testing.assert_array_equal(on_device(kind, counters, 2**63 + 7), philox(counters, 2**63 + 7))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_for_cuda(architecture: str) -> None:
    assert b".text.random_words" in compile_cubin(SOURCE, architecture)


def test_uniform_numbers_differ_by_position_step_and_key() -> None:
    draws = [uniform(1000, step, key) for step in (0, 1, 2**32, 2**40) for key in (0, 1, 2**32)]
    together = np.concatenate(draws)
    assert len(np.unique(together)) == len(together)
    assert ((together >= 0) & (together < 1)).all()
    assert abs(together.mean() - 0.5) < 4 / np.sqrt(12 * len(together))
    np.testing.assert_array_equal(uniform(10, 1, 0), draws[3][:10])


def test_uniform_numbers_have_53_bits_of_the_first_two_words() -> None:
    first, second, *_ = (int(word) for word in philox([[3, 0, 5, 9]], 11)[0])
    expected = ((first >> 5) * 2**26 + (second >> 6)) / 2**53
    assert uniform(4, 5 + (9 << 32), 11)[3] == expected
