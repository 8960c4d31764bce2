"""The golden model of the weight update."""

from placerl.primitives.fpga.pair.weight_update import Row


def update_golden(
    shared: bool, weights: tuple[Row, Row], gradients: tuple[Row, Row], bits: int
) -> tuple[Row, Row]:
    """Return the rows of weights that a `WeightUpdate` gives for networks 0 and 1: its golden model.

    Args:
        shared: whether both units train network 0. Then both gradients are added to its weights, and those of network
            1 stay as they are. Otherwise each unit's gradient is added to the weights of its own network.
        weights: a row of each network's weights.
        gradients: a row of each unit's gradient.
        bits: width of the results, which are two's complement integers and wrap.
    """

    def wrapped(value: int) -> int:
        return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

    if shared:
        both = [wrapped(w + g + h) for w, g, h in zip(weights[0], *gradients, strict=True)]
        return both, list(weights[1])
    first, second = (
        [wrapped(w + g) for w, g in zip(*pair, strict=True)] for pair in zip(weights, gradients, strict=True)
    )
    return first, second
