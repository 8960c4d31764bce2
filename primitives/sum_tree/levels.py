"""Counts the levels of a sum tree, in whole numbers: a logarithm may be rounded up at an exact power of the fanout."""


def levels_of(leaves: int, fanout: int) -> int:
    """Return the number of node groups (siblings read together) from the root of a sum tree to a leaf, at least 1.

    It is the smallest L with `fanout`^L >= `leaves`. For a tree that is divided into sub-trees, pass the leaves of one.

    Args:
        leaves: number of leaves, at least 1.
        fanout: K, children of a node, at least 2.
    """
    levels, held = 1, fanout
    while held < leaves:
        levels, held = levels + 1, held * fanout
    return levels
