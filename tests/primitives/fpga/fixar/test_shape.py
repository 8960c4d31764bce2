"""The sizes of FIX's networks in the accelerator's memories, next to those that the paper prints."""

import pytest

from placerl.primitives.fpga.fixar.shape import FixarShape, benchmark


def test_halfcheetah_takes_the_activation_memory_that_the_paper_has() -> None:
    shape = benchmark("halfcheetah")
    assert shape.activation_bytes == 2944  # FIX III: 2.94 KB
    # FIX III: 1.05 MB; whole blocks, and columns for biases, take a tenth more.
    assert shape.weight_bytes == 1_153_024
    assert [layer.blocks for layer in shape.actor] == [25 * 2, 19 * 26, 19]
    assert shape.critic[0].base == shape.actor_blocks


def test_a_bias_after_a_full_block_takes_a_block() -> None:
    shape = FixarShape(3, 1, (4, 8), side=4)
    assert [layer.in_blocks for layer in shape.actor] == [1, 2, 3]
    assert [layer.in_blocks for layer in shape.critic] == [2, 2, 3]


@pytest.mark.parametrize(
    ("options", "field"),
    [({"side": 6}, "side"), ({"action": 17}, "action"), ({"hidden": (0, 3)}, "state, hidden")],
)
def test_wrong_sizes_are_named(options: dict, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: found"):
        FixarShape(**{"state": 5, "action": 2, **options})


def test_an_unknown_network_is_named() -> None:
    with pytest.raises(ValueError, match=r"^network: found 'ant'; allowed: halfcheetah, hopper, swimmer"):
        benchmark("ant")
