"""Describes platforms, their devices, links and power, from a TOML file or from what this machine has."""

from placerl.harness.platforms.schema import (
    THIS_MACHINE,
    PlatformDevice,
    PlatformFile,
    PlatformLink,
    SourcedCount,
    SourcedNumber,
    load,
    names,
    of_machine,
    of_this_machine,
)

__all__ = [
    "THIS_MACHINE",
    "PlatformDevice",
    "PlatformFile",
    "PlatformLink",
    "SourcedCount",
    "SourcedNumber",
    "load",
    "names",
    "of_machine",
    "of_this_machine",
]
