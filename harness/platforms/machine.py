"""What is known of a machine on which numbers are measured, as `placerl doctor` shows it and runs store it."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from placerl.harness.measure.noise import Noise


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Cache(_Part):
    """One cache of the processor, as the kernel reports it for core 0.

    Attributes:
        level: 1 for the cache nearest to the core, and so on.
        kind: "data", "instruction" or "unified".
        size_bytes, line_bytes: size of the cache and of one cache line.
        shared_by_cores: number of cores that share the cache.
    """

    level: int
    kind: str  # "data", "instruction" or "unified"
    size_bytes: int
    line_bytes: int
    shared_by_cores: int


class Cpu(_Part):
    """The processor of a machine, its caches, and the size of the main memory.

    Attributes:
        model: the processor's name.
        architecture: its instruction set, such as "x86_64".
        physical_cores, logical_cores: numbers of cores, without and with hyper-threads; `physical_cores` is None if it
            is unknown.
        usable_cores: number of logical cores that this process may use at the same time.
        quota_cores: CPU quota of the control groups that contain this process, in cores; None if there is none.
        quota_file: the file that states the quota; empty if there is none.
        simd_level: vector instructions of the native kernels: "avx512", "avx2" or "portable".
        vector_flags: names of the vector instruction sets that the processor has.
        highest_mhz: highest clock frequency; None if it is unknown.
        caches: the caches of core 0.
        memory_bytes: size of the main memory.
    """

    model: str
    architecture: str
    physical_cores: int | None
    logical_cores: int
    usable_cores: int
    quota_cores: float | None = None
    quota_file: str = ""
    simd_level: str  # of the native kernels: "avx512", "avx2" or "portable"
    vector_flags: tuple[str, ...]
    highest_mhz: float | None
    caches: tuple[Cache, ...]
    memory_bytes: int


class Accelerator(_Part):
    """A CUDA or OpenCL device of a machine, and whether it can be used.

    Attributes:
        kind: "cuda" or "opencl".
        device: its name in a mapping, such as "cuda:0".
        name: the vendor's name.
        memory_bytes: size of its memory; None if it is unknown.
        compute_units: number of its multiprocessors or compute units; None if it is unknown.
        usable: whether it can be used.
        reason: why it cannot be used; empty if it can.
    """

    kind: str  # "cuda" or "opencl"
    device: str  # its name in a mapping
    name: str
    memory_bytes: int | None
    compute_units: int | None
    usable: bool
    reason: str  # why it is not usable; empty if it is


class Backend(_Part):
    """Says whether a primitive can run on a backend on this machine.

    Attributes:
        primitive: name of the primitive, such as "sum_tree".
        name: the backend's name, or for environments that of the simulator.
        available: whether it can run here.
        reason: why it cannot run; empty if it can.
    """

    primitive: str
    name: str
    available: bool
    reason: str


class Link(_Part):
    """The measured bandwidth between two devices, or within the memory of one device.

    Attributes:
        source, target: the devices' names in mappings.
        bytes_per_s: bytes copied per second, the median of several copies of 64 MiB.
    """

    source: str
    target: str
    bytes_per_s: float


class PowerMeter(_Part):
    """Says whether the power or energy of a part of the machine can be read.

    Attributes:
        name: name of the part, such as "RAPL package-0".
        readable: whether its counter can be read.
        reason: why the counter cannot be read; empty if it can.
    """

    name: str
    readable: bool
    reason: str


class Machine(_Part):
    """The description of a machine, which `placerl doctor` shows and which is stored with every run.

    Attributes:
        fingerprint: hash of what identifies the machine: processor, number of cores, memory and accelerators, and a
            CPU quota below the number of cores. Runs from machines with different fingerprints are kept apart.
        cpu: the processor.
        accelerators: the CUDA and OpenCL devices.
        backends: the backends of the primitives, and whether each can run here.
        links: the measured bandwidths.
        noise: how quiet the machine was; None if it was not measured.
        power: the meters of power and energy, and whether each can be read.
        system: name and version of the operating system.
        versions: versions of Python and of libraries, by name.
        problems: one line for each probe that failed, with its error.
    """

    fingerprint: str
    cpu: Cpu
    accelerators: tuple[Accelerator, ...]
    backends: tuple[Backend, ...]
    links: tuple[Link, ...]
    noise: Noise | None = None
    power: tuple[PowerMeter, ...]
    system: str
    versions: dict[str, str]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the machine as nested dicts, lists and scalars."""
        return self.model_dump(mode="json")
