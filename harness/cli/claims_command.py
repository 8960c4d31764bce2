"""The command `placerl claims`, which lists the papers' statements with the verdicts on them."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, in_short, out, print_json, say
from placerl.harness.cli.completion import claims as claim_keys
from placerl.harness.cli.completion import completed
from placerl.harness.core.errors import UserError
from placerl.harness.core.outcome import Outcome
from placerl.harness.core.revision import RESULTS, store_path

if TYPE_CHECKING:
    from placerl.harness.papers import Verdict


@app.command(name="claims", epilog="Example: `placerl claims --only PRL --verdict 'not reproduced'`")
def claims_command(
    only: Annotated[
        str,
        typer.Option(
            "--only",
            "--paper",
            help="A paper's key (FIX), a claim's (FIX-F7), or the beginning of several, up to a hyphen (MAP-F12).",
            autocompletion=completed(claim_keys),
        ),
    ] = "",
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            "--verdict",
            help=f"Only these verdicts: {', '.join(Outcome)}; may be repeated.",
            autocompletion=completed(lambda: map(str, Outcome)),
        ),
    ] = None,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """List the papers' statements with the published numbers, those of the store's last run, and the verdicts."""
    from placerl.harness.papers import claims
    from placerl.harness.report.reading import read

    asked = [_outcome(name) for name in verdict or ()]
    keys = {claim.key for claim in claims(only)}
    content = read(store_path(results))
    verdicts = [
        one for one in content.verdicts if one.key in keys and (not asked or one.finding.outcome in asked)
    ]
    if as_json:
        print_json([one.to_json() | {"lenders": content.lenders(one)} for one in verdicts])
        return
    out.print(_table(verdicts))
    uses = Counter(lender for one in verdicts for lender in content.lenders(one))
    for lender, count in sorted(uses.items()):
        rely = "verdict relies" if count == 1 else "verdicts rely"
        say(f"{count} {rely} on clock cycles or counts, the same on every machine, from the {lender}.")


def _outcome(name: str) -> Outcome:
    if name not in list(Outcome):
        raise UserError("command line", "--verdict", repr(name), ", ".join(Outcome))
    return Outcome(name)


def _table(verdicts: "Sequence[Verdict]") -> Table:
    table = Table(title="1 claim" if len(verdicts) == 1 else f"{len(verdicts)} claims")
    for column in ("claim", "statement", "published", "ours", "verdict", "provenance"):
        table.add_column(column)
    for one in verdicts:
        table.add_row(one.key, one.statement, one.published, in_short(one.ours), one.verdict, one.provenance)
    return table
