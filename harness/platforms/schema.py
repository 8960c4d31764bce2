"""Platforms: devices, the links between them, and their watts, from TOML or from the machine at hand.

    name = "map-tpds23"
    [[device]]
    key = "gpu"              # as links name it
    kind = "gpu"             # cpu, gpu or fpga
    name = "..."
    memory_gb_s = { value = 550.0, provenance = "published", source = "MAP Table IV" }
    [[link]]
    between = ["cpu", "gpu"] # both directions
    gb_s = { value = 16.0, provenance = "published", source = "MAP VII-A" }

Every number says where it comes from. What a source does not give is left out, never guessed. (The module is
not called `platform`, which is one of the standard library's.)
"""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from harness.core.errors import UserError
from harness.core.provenance import Provenance
from harness.core.toml_models import Table, check, read_toml, refusal
from harness.platforms.this_machine import Machine, describe
from primitives.fpga.devices import catalogue

_FOLDER = Path(str(resources.files("harness") / "platforms"))
THIS_MACHINE = "this-machine"
_KINDS = {"cuda": "gpu", "opencl": "gpu"}  # of the devices that backends occupy

T = TypeVar("T", bound="Number")
Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9:_-]{0,31}$")]


class Number(Table):
    """A positive number with its origin; the bounds are wider than any device, and keep what follows finite."""

    value: float = Field(ge=1e-6, le=1e9, description="in the unit that the field's name gives")
    # Not strict: a file has its name.
    provenance: Provenance = Field(strict=False, description="measured, simulated, modelled or published")
    source: str = Field(
        min_length=1, max_length=300, description="paper and place, data sheet, or how measured"
    )


class Count(Number):
    """A whole number of something, with its origin."""

    value: float = Field(ge=1, le=10**6, multiple_of=1, description="a whole number")


def _clock_of_a_board(stated: Any) -> Any:
    """The fields of a `Number` for `{ board = KEY }`; anything else as it is."""
    if not isinstance(stated, dict) or stated.keys() != {"board"}:
        return stated
    clocks_hz = catalogue.clocks_hz()
    key = stated["board"]
    if not isinstance(key, str) or key not in clocks_hz:
        raise ValueError(f"board: found {key!r}; allowed: {', '.join(clocks_hz)}")
    source = catalogue.device(key).clock_source
    return {"value": clocks_hz[key] / 1e6, "provenance": Provenance.PUBLISHED.value, "source": source}


class Device(Table):
    """One device. GB are 10^9 bytes, MB 10^6, TFLOPS 10^12 operations a second in float32 (or as named)."""

    key: Key = Field(description="how links name it; 'cpu' is the host")
    kind: Literal["cpu", "gpu", "fpga"] = Field(description="'cpu', 'gpu' or 'fpga'")
    name: str = Field(min_length=1, max_length=200, description="vendor's name")
    cores: Count | None = Field(default=None, description="cores, or compute units")
    clock_mhz: Annotated[Number | None, BeforeValidator(_clock_of_a_board)] = Field(
        default=None, description="clock frequency, or { board = KEY }: that of an FPGA of devices.toml"
    )
    memory_gb_s: Number | None = Field(default=None, description="bandwidth of its own memory")
    last_level_cache_mb: Number | None = Field(default=None, description="or on-chip SRAM")
    peak_tops: Number | None = Field(default=None, description="tera-operations per second")
    peak_type: Literal["fp32", "int32", "bf16", "int8"] | None = Field(
        default=None, description="of peak_tops"
    )
    watts: Number | None = Field(default=None, description="power under load")
    launch_us: Number | None = Field(default=None, description="to start one kernel from the host")
    tree_pipelines: Count | None = Field(default=None, description="S of an FPGA's replay, at most")

    @model_validator(mode="after")
    def _peak_has_a_type(self) -> Self:
        if (self.peak_tops is None) != (self.peak_type is None):
            raise ValueError("peak_type: found none or no peak_tops; allowed: both or neither")
        return self


class Link(Table):
    """A link between two devices, as fast in both directions."""

    between: tuple[Key, Key] = Field(description="keys of two devices; the same twice: within its memory")
    gb_s: Number | None = Field(default=None, description="payload, 10^9 bytes per second")


class Platform(Table):
    """A host and its devices; each device has a link to the host.

    The fields `device` and `link` are named in the singular as the tables of the file are.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="lower case, digits and hyphens")
    description: str = Field(default="", max_length=2000)
    device: tuple[Device, ...] = Field(min_length=1, max_length=64, description="devices, one of them 'cpu'")
    link: tuple[Link, ...] = Field(default=(), max_length=1024, description="links between devices")

    def find(self, key: str) -> Device:
        """The device of that key; KeyError when there is none."""
        for device in self.device:
            if device.key == key:
                return device
        raise KeyError(key)

    def link_gb_s(self, a: str, b: str) -> Number:
        """The bandwidth between two devices; KeyError when the file gives none."""
        for link in self.link:
            if set(link.between) == {a, b} and link.gb_s is not None:
                return link.gb_s
        raise KeyError((a, b))

    @property
    def cpu_cores(self) -> int:
        """Cores of the host; UserError where the platform does not say."""
        cores = self.find("cpu").cores
        if cores is None:
            raise UserError(self.name, "device 'cpu'.cores", "nothing", "the number of cores")
        return int(cores.value)

    def key_of(self, device: str) -> str:
        """The key of a device that a mapping names: `cuda` is the first GPU, `fpga:u200` that FPGA or the only one.

        Raises:
            UserError: the platform has no such device.
        """
        keys = [made.key for made in self.device]
        backend = device.partition(":")[0]
        kind = _KINDS.get(backend, backend)
        alike = [made.key for made in self.device if made.kind == kind]
        for key in (device, f"{device}:0", *(alike if device == backend or len(alike) == 1 else ())):
            if key in keys:
                return key
        raise UserError(self.name, "device", f"none for {device!r}", f"one of {', '.join(keys)}")

    def bytes_per_s(self, source: str, target: str) -> float:
        """Between two devices that a mapping names, over the host where they have no link; within one, its memory.

        Raises:
            UserError: the platform does not say.
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
        # Each device has a link to the host, and what goes over two takes as long as both.
        return 1 / (1 / self._link_bytes_per_s("cpu", a) + 1 / self._link_bytes_per_s("cpu", b))

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
        for key in keys:
            if key != "cpu" and frozenset({"cpu", key}) not in ends:
                raise refusal(
                    "link", f"none between 'cpu' and {key!r}", "a link from each device to the host"
                )
        return self


def names() -> tuple[str, ...]:
    """The platforms that `load` knows by name; the first is the machine at hand."""
    return (THIS_MACHINE, *sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name_or_path: str | Path) -> Platform:
    """A platform by its name, or from a TOML file.

    Args:
        name_or_path: one of `names()`, or a path that ends in `.toml`.

    Raises:
        UserError: unknown, unreadable, malformed, or devices and links that do not fit together.
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
    return check(Platform, read_toml(path), path)


@cache
def of_this_machine() -> Platform:
    """The machine at hand, looked at once."""
    return of_machine(describe())


def of_machine(machine: Machine) -> Platform:
    """The platform that a machine's description amounts to.

    Bandwidths are measured. What the operating system or a driver says of cores and caches nobody measured here: it
    is published, with them as its source.

    A link is as fast as the slower of its two directions. A device whose links were not measured is left out.
    """

    def measured(value: float, how: str) -> Number:
        return Number(value=value, provenance=Provenance.MEASURED, source=how)

    def told(kind: type[T], value: float, by: str) -> T:
        return kind(value=value, provenance=Provenance.PUBLISHED, source=f"told by {by}")

    speeds: dict[frozenset[str], float] = {}
    for link in machine.links:
        ends = frozenset({link.source, link.target})
        speeds[ends] = min(link.bytes_per_s, speeds.get(ends, link.bytes_per_s))
    copied = "copies of 64 MiB, median"
    cache = max((c.size_bytes for c in machine.cpu.caches), default=None)
    memory = speeds.get(frozenset({"cpu"}))
    host = Device(
        key="cpu",
        kind="cpu",
        name=machine.cpu.model,
        cores=told(Count, machine.cpu.usable_cores, "the operating system"),
        last_level_cache_mb=told(Number, cache / 1e6, "the operating system") if cache else None,
        memory_gb_s=measured(memory / 1e9, copied) if memory else None,
    )
    others = [
        Device(
            key=accelerator.device,
            kind="gpu",
            name=accelerator.name,
            cores=told(Count, accelerator.compute_units, "its driver") if accelerator.compute_units else None,
            memory_gb_s=measured(within / 1e9, copied)
            if (within := speeds.get(frozenset({accelerator.device})))
            else None,
        )
        for accelerator in machine.accelerators
        if accelerator.usable and frozenset({"cpu", accelerator.device}) in speeds
    ]
    links = [
        Link(between=("cpu", device.key), gb_s=measured(speeds[frozenset({"cpu", device.key})] / 1e9, copied))
        for device in others
    ]
    return Platform(name=THIS_MACHINE, device=(host, *others), link=tuple(links))
