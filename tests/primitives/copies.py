"""Every way to copy an object whole."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest


def _out_of_band(original: Any) -> Any:
    """A copy whose arrays come in read-only memory, as between processes that share it."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(original, 5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[bytes(buffer.raw()) for buffer in buffers])


def _pickled(protocol: int) -> Callable[[Any], Any]:
    return lambda original: pickle.loads(pickle.dumps(original, protocol))


WAYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle-{protocol}": _pickled(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
    "pickle-out-of-band": _out_of_band,
    "deepcopy": copy.deepcopy,
}
every_way = pytest.mark.parametrize("way", WAYS)
