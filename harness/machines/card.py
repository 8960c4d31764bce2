"""The card of a machine: what a minute of probes measured on it, small enough to send, without naming anybody.

A card holds no host or user name, no path, no serial number and no address: only what `Facts` and `Figure` list. Its
schema is committed as `card.schema.json`, next to this file.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from placerl.harness.core.toml_models import TomlTable, refusal
from placerl.harness.machines.sent_file import SentFile
from placerl.harness.platforms.machine import Cache

Short = Field(max_length=200)
Unit = Literal["s", "1/s", "B/s", "FLOP/s", "1"]
Names = tuple[str, ...]


class Figure(TomlTable):
    """One measured property of a machine.

    Attributes:
        name: what was measured, such as "latency.4MiB"; `placerl.harness.machines.probes` lists the names.
        unit: its unit.
        status: "ok"; "too_noisy" (the interval is wide); "failed" or "not_run" (without a value).
        reason: why the status is not "ok"; empty otherwise.
        value: the median; None if failed or not run.
        low, high: bounds of the median's 95% interval; None without one.
    """

    name: str = Field(pattern=r"^[a-z0-9_]+(\.[A-Za-z0-9_-]+)*$", max_length=80)
    unit: Unit
    status: Literal["ok", "too_noisy", "failed", "not_run"] = "ok"
    reason: str = Field(default="", max_length=300)
    value: float | None = Field(default=None, gt=0)
    low: float | None = Field(default=None, gt=0)
    high: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        measured = self.status in ("ok", "too_noisy")
        if (self.value is not None) != measured:
            raise refusal("value", repr(self.value), "a number exactly when ok or too_noisy")
        if (self.low is None) != (self.high is None) or (self.status == "ok" and self.low is None):
            raise refusal("low, high", f"{self.low}, {self.high}", "both; or neither, when not ok")
        numbers = [one for one in (self.low, self.value, self.high) if one is not None]
        if numbers != sorted(numbers):
            raise refusal("value", f"{self.value}", f"{self.low} to {self.high}, its interval")
        return self


class Facts(TomlTable):
    """What a machine is, as it reports itself.

    Attributes:
        cpu: the processor's model.
        architecture: its instruction set, such as "x86_64".
        system: the operating system's name, without its version.
        physical_cores: cores without hyper-threads; None if unknown.
        logical_cores: cores with them.
        usable_cores: cores that the process could use at the same time.
        quota_cores: CPU quota of the process's control groups, in cores; None without one.
        simd_level: vector instructions of the native kernels: "avx512", "avx2" or "portable".
        vector_flags: names of the vector instruction sets that the processor has.
        caches: the caches of core 0.
        memory_gib: size of the main memory, rounded to whole GiB.
        accelerators: model names of the usable accelerators, by their names in mappings, such as "cuda:0".
        versions: versions of Python, of PlaceRL and of the libraries that run primitives.
    """

    cpu: str = Short
    architecture: str = Short
    system: str = Short
    physical_cores: int | None = Field(ge=1)
    logical_cores: int = Field(ge=1)
    usable_cores: int = Field(ge=1)
    quota_cores: float | None = Field(gt=0)
    simd_level: str = Short
    vector_flags: Names = Field(max_length=200)
    caches: tuple[Cache, ...] = Field(max_length=32)
    memory_gib: int = Field(ge=0)
    accelerators: Mapping[str, str] = Field(max_length=64)
    versions: Mapping[str, str] = Field(max_length=64)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what machines of one kind have in common: processor, cores, vector instructions and caches."""
        cores = self.physical_cores, self.logical_cores
        return self.cpu, self.architecture, *cores, self.simd_level, self.caches


class Card(SentFile):
    """The card of a machine.

    Attributes:
        facts: what the machine is.
        noise_score: how busy the machine was, 1 or more (`harness.measure.noise`); None if it was not measured.
        wall_s: seconds that the measurement took.
        figures: what was measured, each name once.
    """

    facts: Facts
    noise_score: float | None = Field(ge=1)
    wall_s: float = Field(gt=0)
    figures: tuple[Figure, ...] = Field(min_length=1, max_length=256)

    FORMAT: ClassVar[str] = "placerl-card-1"
    LARGEST_BYTES: ClassVar[int] = 64 * 1024

    @model_validator(mode="after")
    def _has_each_name_once(self) -> Self:
        names = [one.name for one in self.figures]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise refusal("figures", f"{twice[0]} more than once", "each name once")
        return self

    def values(self) -> dict[str, float]:
        """Return the measured values by name, without those that failed or were not run."""
        return {one.name: one.value for one in self.figures if one.value is not None}
