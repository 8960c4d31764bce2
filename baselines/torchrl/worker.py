"""TorchRL as a worker: it says why it cannot be compared, as long as that is so.

The compiled part of its wheels (0.13.1 to 0.14.1) does not load with PyTorch 2.13.0, which every baseline computes
with. The day it loads, the answer says that nothing is mapped to it yet.
"""

import sys
from typing import Any

from job_loop import UnsupportedError, serve


def refuse(job: dict[str, Any]) -> Any:
    """Raises `UnsupportedError` with what importing TorchRL said."""
    try:
        from torchrl import _torchrl  # noqa: F401
    except ImportError as error:
        said = str(error).replace(sys.prefix, "")  # which says nothing to others
        raise UnsupportedError(f"TorchRL does not load: {said}") from error
    raise UnsupportedError("TorchRL loads, but no algorithm is mapped to it yet")


if __name__ == "__main__":
    serve(refuse)
