"""Changes numbers of a platform: `link.cpu-gpu.gb_s=32`, `device.gpu.launch_us=4`.

Of this machine, whose primitives are timed, the numbers can be changed that strategies use next to these times.
"""

from collections.abc import Sequence
from contextlib import suppress

from placerl.harness.core.errors import OptionName, UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.toml_models import check
from placerl.harness.platforms.schema import (
    THIS_MACHINE,
    PlatformDevice,
    PlatformFile,
    PlatformLink,
    SourcedNumber,
)

_OPTION = OptionName("changes", "--set")
_ALWAYS = {"gpu": ("launch_us",), "cpu": ("dispatch_us",), "link": ("gb_s", "latency_us")}
"""By kind of device, or for links, the fields that can be set where a platform does not state them."""
_NEXT_TO_TIMES = {"gpu": ("memory_gb_s",), "cpu": ("cores", "memory_gb_s"), "fpga": ("memory_gb_s",)}
"""By kind of device, the fields that strategies use next to measured times; of links they use all."""


def numbers(platform: PlatformFile) -> dict[str, SourcedNumber | None]:
    """Return the numbers of a platform that can be changed, by name; None for one that it does not state."""
    tables = [(_place(device), device.kind, device) for device in platform.device]
    return {
        f"{place}.{field}": value
        for place, kind, table in (*tables, *((_place(link), "link", link) for link in platform.link))
        for field, value in table
        if (isinstance(value, SourcedNumber) or field in _ALWAYS.get(kind, ()))
        and not (isinstance(table, PlatformLink) and table.within_memory and field == "gb_s")
        and (platform.name != THIS_MACHINE or field in _NEXT_TO_TIMES.get(kind, (field,)))
    }


def with_number(platform: PlatformFile, name: str, value: float) -> PlatformFile:
    """Return a copy of a platform with another number.

    Args:
        name: one of `numbers(platform)`, such as "link.cpu-gpu.gb_s".
        value: the number, in the unit of the field's name.

    Raises:
        UserError: there is no such number, or the value is out of its range.
    """
    known = numbers(platform)
    if name not in known:
        raise UserError(platform.name, _OPTION, name, ", ".join(known))
    kind = type(known[name] or SourcedNumber(value=1, provenance=Provenance.MODELLED, source="any"))
    stated = {"value": value, "provenance": Provenance.MODELLED.value, "source": "what if"}
    number, (place, _, field) = check(kind, stated, name), name.rpartition(".")

    def changed(table: PlatformDevice | PlatformLink) -> PlatformDevice | PlatformLink:
        return table.model_copy(update={field: number}) if _place(table) == place else table

    tables = {"device": tuple(map(changed, platform.device)), "link": tuple(map(changed, platform.link))}
    return platform.model_copy(update=tables)


def changed(platform: PlatformFile, changes: Sequence[str]) -> PlatformFile:
    """Return a copy of a platform with other numbers.

    Args:
        changes: texts such as "link.cpu-gpu.gb_s=32".

    Raises:
        UserError: a text is no assignment of a number, or `with_number` refuses it.
    """
    named = set()
    for change in changes:
        name, _, text = change.partition("=")
        if name in named:
            raise UserError(platform.name, _OPTION, f"{name} more than once", "each number once")
        named.add(name)
        value = None
        with suppress(ValueError):
            value = float(text)
        if value is None:
            raise UserError(platform.name, _OPTION, change, "NAME=NUMBER, such as link.cpu-gpu.gb_s=32")
        platform = with_number(platform, name, value)
    return platform


def _place(table: PlatformDevice | PlatformLink) -> str:
    return f"device.{table.key}" if isinstance(table, PlatformDevice) else f"link.{'-'.join(table.between)}"
