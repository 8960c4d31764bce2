"""Create MuJoCo's models and simulations for the native environments.

The models come from the `mujoco` package and Gymnasium's XML files. `MjModel` and `MjData` are created in Python. C++
gets the addresses of their arrays, and of functions of the library that the package has loaded, so that it does not
depend on the headers of one version.
"""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from placerl.primitives._native import environments as native

from placerl.primitives.interrupts import whole_imports

FUNCTIONS = ("mj_step", "mj_forward", "mj_resetData", "mj_rnePostConstraint")
ARRAYS = (
    "qpos",
    "qvel",
    "ctrl",
    "xpos",
    "xipos",
    "cinert",
    "cvel",
    "qfrc_actuator",
    "cfrc_ext",
    "ten_length",
    "ten_velocity",
)
"""Fields of MjData, in the order of `MujocoData` (native/mujoco.hpp)."""


def unavailable_reason() -> str:
    """Return why no MuJoCo environment can be created here, as text; empty if they can."""
    for package, extra in (("mujoco", "the physics"), ("gymnasium", "whose XML files are the models")):
        if find_spec(package) is None:
            return f"the package {package!r} is not installed ({extra})"
    try:
        with whole_imports():
            import mujoco
    except (ImportError, OSError) as error:
        return f"the package 'mujoco' cannot be imported: {error}"
    return library_reason(mujoco)


def library_reason(mujoco: Any) -> str:
    """Return why the shared library of a `mujoco` package cannot be used, as text; empty if it can."""
    library = _library(mujoco)
    if isinstance(library, str):
        return library
    missing = [name for name in FUNCTIONS if not hasattr(library, name)]
    if missing:
        return f"MuJoCo {mujoco.__version__} has no {', '.join(missing)} in its shared library"
    library_version, package_version = int(library.mj_version()), int(mujoco.mj_version())
    if library_version != package_version:
        return f"the shared library is MuJoCo {library_version}, the package 'mujoco' was built for {package_version}"
    return ""


def _library(mujoco: Any) -> ctypes.CDLL | str:
    """Return the library beside the package, which the package has loaded, or why there is none."""
    folder = Path(mujoco.__file__).parent
    files = sorted(
        path
        for pattern in ("libmujoco*.so*", "libmujoco*.dylib", "mujoco.dll")
        for path in folder.glob(pattern)
    )
    if len(files) != 1:
        return f"{len(files)} shared libraries of MuJoCo in {folder}, where one is expected"
    try:
        return ctypes.CDLL(str(files[0]))
    except OSError as error:
        return f"the shared library of MuJoCo cannot be loaded: {error}"


@cache
def functions() -> tuple[int, ...]:
    """Return the addresses of the functions of MuJoCo's library that `FUNCTIONS` names, in the same order.

    Raises:
        ValueError: the shared library cannot be loaded.
    """
    import mujoco

    library = _library(mujoco)
    if isinstance(library, str):
        raise ValueError(library)
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS)


def load(id: str) -> Any:
    """Return the `mujoco.MjModel` of an environment, from Gymnasium's XML file."""
    import gymnasium
    import mujoco

    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return mujoco.MjModel.from_xml_path(str(folder / native.mujoco_files()[id]))


def make(id: str, count: int, autoreset: native.Autoreset, episode_steps: int) -> native.VectorEnv:
    """Create the C++ object that steps `count` MuJoCo environments, with their model and simulations.

    Args:
        id: one of Gymnasium's MuJoCo environments of version 5.
        count: number of environments, each with an `MjData` of its own.
        autoreset: when the next episode begins: in the next step, in the same step, or only by a reset.
        episode_steps: time limit, 0 for none, -1 for that of Gymnasium's registry.
    """
    import mujoco

    model = load(id)
    simulations = [mujoco.MjData(model) for _ in range(count)]
    addresses = [[data._address, *(_address(data, name) for name in ARRAYS)] for data in simulations]
    low, high = model.actuator_ctrlrange.astype("float32").T
    described = native.MujocoModel(
        address=model._address,
        sizes=[model.nq, model.nv, model.nu, model.nbody, model.ntendon],
        timestep_s=model.opt.timestep,
        qpos=simulations[0].qpos.tolist(),
        qvel=simulations[0].qvel.tolist(),
        control_low=low.tolist(),
        control_high=high.tolist(),
        body_mass=model.body_mass.tolist(),
        total_mass=float(model.body_mass.sum()),
    )
    env = native.make_mujoco(id, autoreset, episode_steps, list(functions()), described, addresses)
    # C++ has their addresses alone.
    env.simulated = (model, simulations)
    return env


def _address(data: Any, name: str) -> int:
    array = getattr(data, name)
    if array.dtype != "float64" or not array.flags.c_contiguous:
        raise ValueError(
            f"MjData.{name}: found {array.dtype}, not contiguous float64, in this version of MuJoCo"
        )
    return int(array.ctypes.data)
