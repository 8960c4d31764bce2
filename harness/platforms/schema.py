"""Platforms: devices, the links between them, and their power. A platform is this machine, or is described by a file:

    name = "map-tpds23"
    [[device]]
    key = "gpu"              # by which links refer to the device
    kind = "gpu"             # cpu, gpu or fpga
    name = "..."
    memory_gb_s = { value = 550.0, provenance = "published", source = "MAP Table IV" }
    [[link]]
    between = ["cpu", "gpu"] # both directions
    gb_s = { value = 16.0, provenance = "published", source = "MAP VII-A" }

Every number states its origin. Numbers that a source does not give are left out, never guessed. (The module is not
called `platform`, because the standard library has a module of that name.)
"""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.toml_models import TomlTable, check, read_toml, refusal
from placerl.harness.platforms.machine import Machine
from placerl.harness.platforms.this_machine import describe
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.devices.catalogue import FpgaDevice

_FOLDER = Path(str(resources.files("placerl.harness") / "platforms"))
THIS_MACHINE = "this-machine"
BLOCK_RAM_BITS = 36_864
_RESOURCES = ("luts", "flip_flops", "dsps", "block_rams")
_KINDS = {"cuda": "gpu", "opencl": "gpu"}  # kinds of the devices that backends use

T = TypeVar("T", bound="SourcedNumber")
Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9:_-]{0,31}$")]


class SourcedNumber(TomlTable):
    """A positive number, and where it comes from.

    The allowed range is wider than any device needs, and keeps numbers that are computed from it finite.
    """

    value: float = Field(ge=1e-6, le=1e9, description="in the unit that the field's name gives")
    # Not strict, because a file holds the provenance as text.
    provenance: Provenance = Field(strict=False, description="measured, simulated, modelled or published")
    source: str = Field(
        min_length=1, max_length=300, description="paper and place, data sheet, or how measured"
    )


class SourcedCount(SourcedNumber):
    """A positive whole number, such as a number of cores, and where it comes from."""

    value: float = Field(ge=1, le=10**6, multiple_of=1, description="a whole number")


class SourcedCells(SourcedCount):
    """A number of an FPGA's cells or blocks, and where it comes from."""

    value: float = Field(ge=1, le=10**8, multiple_of=1, description="a whole number")


def _clock_of_a_board(stated: Any) -> Any:
    """Return the fields of a `SourcedNumber` for `{ board = KEY }`; other values unchanged."""
    if not isinstance(stated, dict) or stated.keys() != {"board"}:
        return stated
    clocks_hz = catalogue.clocks_hz()
    key = stated["board"]
    if not isinstance(key, str) or key not in clocks_hz:
        raise ValueError(f"board: found {key!r}; allowed: {', '.join(clocks_hz)}")
    source = catalogue.device(key).clock_source
    return {"value": clocks_hz[key] / 1e6, "provenance": Provenance.PUBLISHED.value, "source": source}


class PlatformDevice(TomlTable):
    """One device of a platform: its kind, name and key, and the bandwidths, sizes and speeds that a source states.

    GB are 10^9 bytes, MB 10^6 bytes, and tera-operations 10^12 operations. `peak_type` is the data type of the
    operations that `peak_tops` counts, such as "fp32".
    """

    key: Key = Field(description="how links name it; 'cpu' is the host")
    kind: Literal["cpu", "gpu", "fpga"] = Field(description="'cpu', 'gpu' or 'fpga'")
    name: str = Field(min_length=1, max_length=200, description="vendor's name")
    cores: SourcedCount | None = Field(default=None, description="cores, or compute units")
    clock_mhz: Annotated[SourcedNumber | None, BeforeValidator(_clock_of_a_board)] = Field(
        default=None, description="clock frequency, or { board = KEY }: that of an FPGA of devices.toml"
    )
    memory_gb_s: SourcedNumber | None = Field(default=None, description="bandwidth of its own memory")
    last_level_cache_mb: SourcedNumber | None = Field(default=None, description="or on-chip SRAM")
    peak_tops: SourcedNumber | None = Field(default=None, description="tera-operations per second")
    peak_type: Literal["fp32", "int32", "bf16", "int8"] | None = Field(
        default=None, description="of peak_tops"
    )
    watts: SourcedNumber | None = Field(default=None, description="power under load")
    launch_us: SourcedNumber | None = Field(default=None, description="to start one kernel from the host")
    dispatch_us: SourcedNumber | None = Field(
        default=None, description="of the learner's framework, to begin one operation on a CPU"
    )
    tree_pipelines: SourcedCount | None = Field(default=None, description="S of an FPGA's replay, at most")
    learner_pipeline: str | None = Field(
        default=None, description="FPGA of devices.toml whose resources bound a learner of MAP's pipelines"
    )
    luts: SourcedCells | None = Field(default=None, description="of an FPGA that devices.toml does not have")
    flip_flops: SourcedCells | None = Field(default=None, description="of such an FPGA")
    dsps: SourcedCells | None = Field(default=None, description="of such an FPGA")
    block_rams: SourcedCells | None = Field(default=None, description="of such an FPGA, of 36 Kbit each")

    @model_validator(mode="after")
    def _peak_has_a_type(self) -> Self:
        if (self.peak_tops is None) != (self.peak_type is None):
            raise ValueError("peak_type: found none or no peak_tops; allowed: both or neither")
        if self.learner_pipeline is not None and self.learner_pipeline not in catalogue.catalogue():
            raise refusal("learner_pipeline", repr(self.learner_pipeline), ", ".join(catalogue.catalogue()))
        stated = [name for name in _RESOURCES if getattr(self, name) is not None]
        if stated and (self.kind != "fpga" or self.learner_pipeline or stated != [*_RESOURCES]):
            allowed = (
                f"{', '.join(_RESOURCES)} together, of an FPGA without learner_pipeline, or none of them"
            )
            raise refusal(stated[0], f"{', '.join(stated)} of a {self.kind}", allowed)
        return self

    @property
    def own_fpga(self) -> FpgaDevice | None:
        """The FPGA that the device's own numbers of cells, blocks and its clock describe; None without them."""
        if self.dsps is None:
            return None
        luts, flip_flops, dsps, block_rams = (int(getattr(self, name).value) for name in _RESOURCES)
        clock_hz = self.clock_mhz.value * 1e6 if self.clock_mhz else 0.0
        return FpgaDevice(
            self.name, luts, flip_flops, dsps, block_rams, BLOCK_RAM_BITS, 0, 1, self.dsps.source, clock_hz
        )


class PlatformLink(TomlTable):
    """A link between two devices, equally fast in both directions.

    A transfer takes the latency plus its number of bytes divided by the bandwidth. A latency that is not stated
    counts as 0.
    """

    between: tuple[Key, Key] = Field(description="keys of two devices; the same twice: within its memory")
    gb_s: SourcedNumber | None = Field(default=None, description="payload, 10^9 bytes per second")
    latency_us: SourcedNumber | None = Field(default=None, description="of a transfer, before its first byte")

    @property
    def within_memory(self) -> bool:
        """Return whether both ends are the same device, whose `memory_gb_s` is the bandwidth then."""
        return len(set(self.between)) == 1


class PlatformFile(TomlTable):
    """A platform: a host and its other devices, each of which has a link to the host.

    The fields `device` and `link` hold several values. Their names are singular because the file's tables,
    `[[device]]` and `[[link]]`, are.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="lower case, digits and hyphens")
    description: str = Field(default="", max_length=2000)
    device: tuple[PlatformDevice, ...] = Field(
        min_length=1, max_length=64, description="devices, one of them 'cpu'"
    )
    link: tuple[PlatformLink, ...] = Field(default=(), max_length=1024, description="links between devices")

    def find(self, key: str) -> PlatformDevice:
        """Return the device with a key.

        Args:
            key: the name by which links refer to the device, such as "gpu".

        Raises:
            KeyError: the platform has no such device.
        """
        for device in self.device:
            if device.key == key:
                return device
        raise KeyError(key)

    def link_gb_s(self, a: str, b: str) -> SourcedNumber:
        """Return the bandwidth of the link between the devices with keys `a` and `b`, in GB/s.

        Args:
            a, b: names by which links refer to the devices, such as "cpu" and "gpu".

        Raises:
            KeyError: there is no link between them, or its bandwidth is not stated.
        """
        for link in self.link:
            if set(link.between) == {a, b} and link.gb_s is not None:
                return link.gb_s
        raise KeyError((a, b))

    @property
    def cpu_cores(self) -> int:
        """Return the number of cores of the host; raises UserError if the platform does not state it."""
        cores = self.find("cpu").cores
        if cores is None:
            raise UserError(self.name, "device 'cpu'.cores", "nothing", "the number of cores")
        return int(cores.value)

    def key_of(self, device: str) -> str:
        """Return the key of the device that a mapping means.

        Args:
            device: name in a mapping. `cuda` and `opencl` mean the first GPU. A name with a number or model, such as
                `fpga:u200`, means the device with that key, or the only device of the kind (here FPGA).

        Raises:
            UserError: the platform has no such device.
        """
        keys = [one.key for one in self.device]
        backend = device.partition(":")[0]
        kind = _KINDS.get(backend, backend)
        alike = [one.key for one in self.device if one.kind == kind]
        for key in (device, f"{device}:0", *(alike if device == backend or len(alike) == 1 else ())):
            if key in keys:
                return key
        raise UserError(self.name, "device", f"none for {device!r}", f"one of {', '.join(keys)}")

    def bytes_per_s(self, source: str, target: str) -> float:
        """Return the bandwidth of transfers between two devices, bytes/s.

        Two devices without a link of their own communicate over the host: a transfer takes the sum of the times on
        both links. If source and target are the same device, this is the bandwidth of its memory.

        Args:
            source, target: names of devices, as in mappings, such as "cpu" and "cuda:0".

        Raises:
            UserError: the platform has no such device, or does not state the bandwidth.
        """
        a, b = self.key_of(source), self.key_of(target)
        if a == b:
            memory = self.find(a).memory_gb_s
            if memory is None:
                raise UserError(self.name, f"device {a!r}.memory_gb_s", "nothing", "its bandwidth in GB/s")
            return memory.value * 1e9
        ends = {frozenset(link.between) for link in self.link}
        if frozenset({a, b}) in ends:
            return self._link_bytes_per_s(a, b)
        # Each device has a link to the host; a transfer over two links takes the sum of their times.
        return 1 / (1 / self._link_bytes_per_s("cpu", a) + 1 / self._link_bytes_per_s("cpu", b))

    def latency_s(self, source: str, target: str) -> float:
        """Return the latency of a transfer between two devices, in seconds: the time before its first byte.

        Two devices without a link of their own communicate over the host, and their links' latencies are added. A
        latency that the platform does not state counts as 0.

        Args:
            source, target: names of devices, as in mappings, such as "cpu" and "cuda:0".

        Raises:
            UserError: the platform has no such device.
        """
        a, b = self.key_of(source), self.key_of(target)
        stated = {frozenset(link.between): link.latency_us for link in self.link}
        hops = [frozenset({a, b})]
        if a != b and hops[0] not in stated:
            hops = [frozenset({"cpu", a}), frozenset({"cpu", b})]
        latencies = (stated.get(hop) for hop in hops)
        return sum(latency.value * 1e-6 for latency in latencies if latency is not None)

    def with_latency(self, latency_us: SourcedNumber) -> Self:
        """Return a copy of the platform in which every link between two devices has a latency.

        Links that state a latency keep it. The others get `latency_us`, in microseconds.
        """
        links = [
            link
            if link.latency_us is not None or link.within_memory
            else link.model_copy(update={"latency_us": latency_us})
            for link in self.link
        ]
        return self.model_copy(update={"link": tuple(links)})

    def with_device(self, other: "PlatformFile", key: str, name: str) -> Self:
        """Return a copy of the platform to which a device of another one, and its link to the host, are added.

        Args:
            other: states the device's numbers and its link.
            key: the device's key there.
            name: its key here, as mappings name it.

        Raises:
            KeyError: the other platform has no such device.
        """
        device = other.find(key).model_copy(update={"key": name})
        stated = next(link for link in other.link if set(link.between) == {"cpu", key})
        link = stated.model_copy(update={"between": ("cpu", name)})
        return self.model_copy(update={"device": (*self.device, device), "link": (*self.link, link)})

    def _link_bytes_per_s(self, a: str, b: str) -> float:
        try:
            return self.link_gb_s(a, b).value * 1e9
        except KeyError:
            field = f"link between {a!r} and {b!r}.gb_s"
            raise UserError(self.name, field, "nothing", "its payload in GB/s, with a source") from None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        keys = [device.key for device in self.device]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                raise refusal(f"device[{number}].key", repr(key), "each key once")
        if "cpu" not in keys:
            raise refusal("device", f"the keys {', '.join(keys)}", "a device with the key 'cpu', the host")
        ends = [frozenset(link.between) for link in self.link]
        for number, link in enumerate(self.link):
            for key in link.between:
                if key not in keys:
                    raise refusal(f"link[{number}].between", repr(key), f"the devices {', '.join(keys)}")
            if ends[number] in ends[:number]:
                raise refusal(f"link[{number}].between", " and ".join(link.between), "each pair once")
            if link.within_memory and link.gb_s is not None:
                allowed = f"nothing within a memory: memory_gb_s of device {link.between[0]!r}"
                raise refusal(f"link[{number}].gb_s", link.gb_s.value, allowed)
        for key in keys:
            if key != "cpu" and frozenset({"cpu", key}) not in ends:
                raise refusal(
                    "link", f"none between 'cpu' and {key!r}", "a link from each device to the host"
                )
        return self


def names() -> tuple[str, ...]:
    """Return the names of the platforms that `load` knows; the first is this machine."""
    return (THIS_MACHINE, *sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name_or_path: str | Path) -> PlatformFile:
    """Return a platform by its name, or from a TOML file.

    Args:
        name_or_path: one of `names()`, or a path that ends in `.toml`.

    Raises:
        UserError: the name is unknown, the file is unreadable or malformed, or its devices and links contradict each
            other.
    """
    text = str(name_or_path)
    if text == THIS_MACHINE:
        return of_this_machine()
    if text in names():
        path = _FOLDER / f"{text}.toml"
    elif text.endswith(".toml"):
        path = Path(text)
    else:
        raise UserError("platform", "name", repr(text), f"{', '.join(names())}, or a path that ends in .toml")
    return check(PlatformFile, read_toml(path), path)


@cache
def of_this_machine() -> PlatformFile:
    """Return this machine as a platform. Its devices are examined at the first call only."""
    return of_machine(describe())


def of_machine(machine: Machine) -> PlatformFile:
    """Turn a machine's description into a platform.

    The provenance of bandwidths is "measured". Numbers of cores and sizes of caches are "published", with the
    operating system or driver that reports them as source, because they were not measured here.

    A link is as fast as the slower of its two directions. A device whose links were not measured is left out.
    """

    def measured(value: float, how: str) -> SourcedNumber:
        return SourcedNumber(value=value, provenance=Provenance.MEASURED, source=how)

    def told(kind: type[T], value: float, by: str) -> T:
        return kind(value=value, provenance=Provenance.PUBLISHED, source=f"told by {by}")

    speeds: dict[frozenset[str], float] = {}
    for link in machine.links:
        ends = frozenset({link.source, link.target})
        speeds[ends] = min(link.bytes_per_s, speeds.get(ends, link.bytes_per_s))
    copied = "copies of 64 MiB, median"
    cache = max((c.size_bytes for c in machine.cpu.caches), default=None)
    memory = speeds.get(frozenset({"cpu"}))
    host = PlatformDevice(
        key="cpu",
        kind="cpu",
        name=machine.cpu.model,
        cores=told(SourcedCount, machine.cpu.usable_cores, "the operating system"),
        last_level_cache_mb=told(SourcedNumber, cache / 1e6, "the operating system") if cache else None,
        memory_gb_s=measured(memory / 1e9, copied) if memory else None,
    )
    others = [
        PlatformDevice(
            key=accelerator.device,
            kind="gpu",
            name=accelerator.name,
            cores=told(SourcedCount, accelerator.compute_units, "its driver")
            if accelerator.compute_units
            else None,
            memory_gb_s=measured(within / 1e9, copied)
            if (within := speeds.get(frozenset({accelerator.device})))
            else None,
        )
        for accelerator in machine.accelerators
        if accelerator.usable and frozenset({"cpu", accelerator.device}) in speeds
    ]
    links = [
        PlatformLink(
            between=("cpu", device.key), gb_s=measured(speeds[frozenset({"cpu", device.key})] / 1e9, copied)
        )
        for device in others
    ]
    return PlatformFile(name=THIS_MACHINE, device=(host, *others), link=tuple(links))
