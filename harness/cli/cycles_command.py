"""The command `placerl cycles`, which keeps the table of simulated clock cycles up to date."""

from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, TierOption, out, print_json, say
from placerl.harness.core.errors import NotRunError, UserError
from placerl.harness.core.progress import bar
from placerl.harness.plan import tiers
from placerl.primitives.fpga.cycles.table import committed
from placerl.primitives.fpga.export import toolchain

if TYPE_CHECKING:
    from placerl.harness.plan.cycles import DesignNeed

ALL_TIERS = "full"
"""The last of the tiers: what it and those before it need is all."""


@app.command(
    name="cycles",
    epilog="Example: `placerl cycles --list`, `placerl cycles --check 20`",
)
def cycles_command(
    tier_name: TierOption = ALL_TIERS,
    list_only: Annotated[
        bool, typer.Option("--list", help="List what is stale or missing, and end; nothing is simulated.")
    ] = False,
    check: Annotated[
        int,
        typer.Option(
            "--check", min=0, help="Simulate so many results again, drawn at random, and compare them."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw of `--check`.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Simulate the clock cycles that the table lacks for a tier and those before it, or check what it has."""
    from placerl.harness.plan import cycles
    from placerl.primitives.fpga.cycles import timed_block

    _refuse_ignored(tier_name, check, seed, list_only=list_only)
    if reason := timed_block.unavailable_reason():
        raise NotRunError(f"needs {reason}")
    if check:
        _check(check, seed, as_json)
        return
    names = list(tiers.TIERS)
    wanted_tiers = names[: names.index(tiers.tier(tier_name).name) + 1]
    with bar("what the tiers need") as report:
        wanted = cycles.needs(wanted_tiers, report)
    due = [need for need in wanted if need.missing or not need.is_current]
    listed = [_listed(need) for need in due]
    simulated_s = 0.0
    if due and not list_only:
        _need_tools()
        begin_s, table = perf_counter(), committed()
        with bar("cycles") as report:
            cycles.update(table, due, report, table.write)
        if wanted_tiers == names:
            table.keep(need.name for need in wanted)
            table.write()
        simulated_s = perf_counter() - begin_s
    if as_json:
        print_json(
            {"designs": len(wanted), "due": listed, "simulated": not list_only, "seconds": simulated_s}
        )
        return
    _show(listed)
    results = sum(len(need.sizes) for need in wanted)
    said = f"The tiers {', '.join(wanted_tiers)} need {results:,} results of {len(wanted)} designs; "
    if list_only or not due:
        missing = sum(one["missing"] for one in listed)
        say(f"{said}the table lacks {missing:,}." + (" `placerl cycles` simulates them." if due else ""))
    else:
        say(f"{said}the table has all of them now, after {simulated_s:,.0f} s.")


def _refuse_ignored(tier_name: str, check: int, seed: int, *, list_only: bool) -> None:
    """Raise UserError for an option that the others would make ignored."""
    if seed and not check:
        raise UserError("command line", "--seed", seed, "0 without --check, whose draw it is")
    for option, found, given in (
        ("--list", "it with --check", list_only),
        ("--tier", f"{tier_name} with --check", tier_name != ALL_TIERS),
    ):
        if check and given:
            raise UserError(
                "command line", option, found, "nothing with --check, which draws from the whole table"
            )


def _listed(need: "DesignNeed") -> dict[str, Any]:
    known = need.name in committed().designs
    state = "missing" if not known else "incomplete" if need.is_current else "stale"
    return {"design": need.name, "state": state, "needed": len(need.sizes), "missing": len(need.missing)}


def _show(listed: list[dict[str, Any]]) -> None:
    if not listed:
        return
    table = Table(title="Designs that the table lacked")
    for column in listed[0]:
        table.add_column(column)
    for one in listed:
        table.add_row(*map(str, one.values()))
    out.print(table)


def _need_tools() -> None:
    if reason := toolchain.unavailable_reason():
        raise NotRunError(f"needs {reason}")


def _check(count: int, seed: int, as_json: bool) -> None:
    from placerl.harness.plan import cycles

    _need_tools()
    with bar("check") as report:
        differences = cycles.check(committed(), count, seed, report)
    if as_json:
        print_json({"checked": count, "different": [asdict(one) for one in differences]})
    else:
        for one in differences:
            say(f"{one.design}: {one.size}: the table has {one.stored}, a simulation gives {one.simulated}")
        say(f"Simulated again: {count}; different: {len(differences)}.")
    if differences:
        raise typer.Exit(1)
