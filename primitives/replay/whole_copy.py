"""Copies that share nothing with their original."""

from typing import NoReturn


class CopiedWhole:
    """Base class of objects that hold items: `copy.deepcopy` and `pickle` copy them, `copy.copy` raises TypeError."""

    def __copy__(self) -> NoReturn:
        raise TypeError(
            f"copy.copy: found {type(self).__name__}; allowed: copy.deepcopy, as two objects with the same items "
            "would overwrite each other's"
        )
