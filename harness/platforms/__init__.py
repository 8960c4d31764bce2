"""Platforms: devices, links and watts, of this machine or described in a TOML file."""

from harness.platforms.schema import (
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
