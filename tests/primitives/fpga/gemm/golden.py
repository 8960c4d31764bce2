"""The golden model of a processing element's multiplier."""


def multiply_golden(activation: int, weight: int, halves: bool, width: int = 32) -> tuple[int, int]:
    """Return the outputs (product, upper_product) of a `ConfigurableMultiplier`: its golden model.

    Args:
        activation: an unsigned integer, the word of `width` bits on the port.
        weight: a signed integer.
        halves: whether the word holds two activations of half the width.
        width: bits of the word.
    """
    half = width // 2

    def signed_value(bits: int, length: int) -> int:
        return bits - (bits >> (length - 1) << length)

    if not halves:
        return signed_value(activation, width) * weight, 0
    low, high = activation & ((1 << half) - 1), activation >> half
    return signed_value(low, half) * weight, signed_value(high, half) * weight
