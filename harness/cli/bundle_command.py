"""The command `placerl bundle`, which packs a card and the times of a run for others."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, print_json, say
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import RESULTS, store_path


@app.command(epilog="Example: `placerl bundle --card laptop.json -o laptop-bundle.json`")
def bundle(
    card: Annotated[
        Path, typer.Option("--card", metavar="FILE", help="What `placerl card -o FILE` wrote here.")
    ],
    path: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The bundle to write, as JSON.")],
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Pack a machine's card with the primitives' times of its last run, to send them; nothing is measured or sent.

    The times are those of `placerl profile` or `placerl reproduce`. A bundle names nobody, as a card.
    """
    from placerl.harness.core.suites import Suite
    from placerl.harness.machines import bundle as bundles
    from placerl.harness.machines.card import Card
    from placerl.harness.machines.checking import problems
    from placerl.harness.machines.measuring import facts_of
    from placerl.harness.platforms.machine import Machine
    from placerl.harness.store import reference
    from placerl.harness.store.rows import PieceTime
    from placerl.harness.store.store import Store

    own = Card.read(card)
    with closing(Store.open(store_path(results), read_only=True)) as store:
        runs = [
            run
            for run in reference.runs_with_results(store)
            if store.measurements(run=run.id, suite=Suite.PROFILE)
        ]
        if not runs:
            raise UserError(
                store_path(results), "rows", "none of suite profile", "a run of `placerl profile`"
            )
        cells = reference.last_attempts(store, runs[-1].id)
    rows = [row for attempt in cells.values() for row in attempt if isinstance(row, PieceTime)]
    differing = bundles.differences(own.facts, facts_of(Machine.model_validate(runs[-1].machine)))
    if differing:
        raise UserError(
            card, differing[0], "another machine's than the last run's", "the card of that machine"
        )
    packed = bundles.bundle(own, rows)
    for reason in problems(packed):
        raise UserError(path, "bundle", reason, "what `placerl check` accepts")
    packed.write(path)
    if as_json:
        print_json({"path": str(path), "rows": len(packed.rows), "hash": packed.hash})
    else:
        say(f"Written: {path}: the card and {len(packed.rows)} rows, hash {packed.hash[:12]}")
