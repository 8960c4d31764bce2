"""Says where the parts of a training run.

A mapping is written Learner-RMM-Storage (RMM: the replay management module, MAP II-A3). Each part is a target, a
backend with an optional device: `torch-native-cpu`, `torch:cuda-native-cpu`, `fpga:u200-fpga:u200-fpga:u200`. A
learner whose precision is not float32 names it: `native[dynamic]-native-cpu`.
"""

import re
from dataclasses import dataclass, replace

from placerl.harness.core.errors import UserError
from placerl.primitives.quantization.precision import FLOAT_32
from placerl.primitives.quantization.precision import NAMES as PRECISIONS
from placerl.primitives.replay import device

# Backends with a device of their own; every other backend runs on the CPU unless its location names a device.
# OpenCL has its own memory even if its device is the CPU: its data is copied to and from it.
_HOME = {"cuda": "cuda", "fpga": "fpga", "opencl": "opencl"}
_FIRST_CUDA = "cuda:0"


_TARGET = re.compile(r"(?P<backend>[^:\[\]]+)(\[(?P<precision>[^\[\]]*)\])?(:(?P<location>[^\[\]]+))?")


@dataclass(frozen=True, order=True)
class Target:
    """Says where a part of a training runs: a backend, and the device if the backend has several.

    Attributes:
        backend: name of a backend (`native`, `torch`, ...) or, for storage, of a device (`cpu`).
        location: the device; empty for the backend's only or default device.
        precision: precision of a learner's numbers, one of `PRECISIONS`.
    """

    backend: str
    location: str = ""
    precision: str = FLOAT_32

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Return the target that a text names.

        The text is `BACKEND`, `BACKEND:DEVICE`, `BACKEND[PRECISION]` or `BACKEND[PRECISION]:DEVICE`. The first CUDA
        device, `cuda:0`, is named `cuda`, so that parts that name it in either way are on one device.

        Raises:
            ValueError: the text has another form.
            UserError: there is no such precision.
        """
        match = _TARGET.fullmatch(text)
        if match is None:
            raise ValueError(
                f"target: found {text!r}; allowed: BACKEND[PRECISION]:DEVICE, the last two optional"
            )
        precision = FLOAT_32 if match["precision"] is None else match["precision"]
        if precision not in PRECISIONS:
            raise UserError(
                "command line", f"precision of {text}", precision or "nothing", ", ".join(PRECISIONS)
            )
        backend, location = match["backend"], match["location"] or ""
        if f"{backend}:{location}" == _FIRST_CUDA:
            location = ""
        elif location == _FIRST_CUDA:
            location = _HOME["cuda"]
        return cls(backend, location, precision)

    @property
    def in_floats(self) -> "Target":
        """Return the same backend and device with precision float32."""
        return replace(self, precision=FLOAT_32)

    @property
    def device(self) -> str:
        """Return the device that the target runs on: `cpu`, `cuda`, `fpga:u200`, ...

        Parts of a training on the same device compete for it, and need no link between them.
        """
        home = _HOME.get(self.backend, "cpu")
        if not self.location:
            return home
        return self.location if home == "cpu" else f"{home}:{self.location}"

    @property
    def on_host(self) -> bool:
        """Return whether the target runs on the host's cores, without a driver."""
        return self.device == "cpu"

    @property
    def kind(self) -> str:
        """Return the backend and the precision without the device: `native`, `native[fixed32]`, ...

        Result rows name a backend like this.
        """
        return self.backend if self.precision == FLOAT_32 else f"{self.backend}[{self.precision}]"

    def __str__(self) -> str:
        return f"{self.kind}:{self.location}" if self.location else self.kind


@dataclass(frozen=True, order=True)
class Mapping:
    """Says where each part of a training runs: backend and device of learner, replay management (RMM) and storage.

    Attributes:
        learner: target (backend, device and precision) of the learner.
        rmm: target of the replay management, which samples and keeps the priorities.
        storage: target of the storage, a device.
    """

    learner: Target
    rmm: Target
    storage: Target

    @classmethod
    def parse(cls, text: str) -> "Mapping":
        """Return the mapping that a text such as `torch-native-cpu` names.

        The text is `LEARNER-RMM-STORAGE` (RMM: replay management). Each part is a backend with an optional device,
        such as `torch:cuda`, and the learner may have a precision, such as `native[fixed32]`.

        Raises:
            UserError: `text` has another form, a precision is unknown, or a part other than the learner has
                a precision.
        """
        try:
            learner, rmm, storage = (Target.parse(part) for part in text.split("-"))
        except ValueError:
            raise UserError(
                source="command line",
                field="mapping",
                found=text or repr(text),
                allowed="LEARNER-RMM-STORAGE, each BACKEND or BACKEND:DEVICE, such as torch-native-cpu; "
                "the learner BACKEND[PRECISION] too",
                names=(),
            ) from None
        for target in (rmm, storage):
            if target.precision != FLOAT_32:
                allowed = "of the learner alone, such as native[fixed32]-native-cpu"
                raise UserError("command line", f"precision in mapping {text}", target, allowed, names=())
        return cls(learner, rmm, storage)

    @property
    def devices(self) -> frozenset[str]:
        """Return the devices that learner, replay management and storage run on, each once."""
        return frozenset({self.learner.device, self.rmm.device, self.storage.device})

    def __str__(self) -> str:
        return f"{self.learner}-{self.rmm}-{self.storage}"


NATIVE_MAPPING = "native-native-cpu"
"""The mapping that C++ threads train (`threads_native`)."""
NATIVE, CPU = Target("native"), Target("cpu")
"""The backend in C++, which learners and replay managements have, and the storage in the host's memory."""
STORING_DEVICES = tuple(status.name for status in device.backends())
"""Kinds of devices whose memory can hold the replay's transitions. Simulated devices keep them in the host's memory."""


def storage_on(device: str) -> Target:
    """Return the `Target` of a storage, which only names its device: `cpu`, `cuda`, `fpga:u200`, ..."""
    return Target.parse(device)
