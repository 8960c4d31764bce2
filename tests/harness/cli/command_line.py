"""What the tests of the command line share: what a command left behind, and a store to work on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placerl.harness.core.provenance import Provenance
from placerl.harness.store.store import Store
from tests.harness.old_form import row_of


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


Placerl = Callable[..., Outcome]


def refused(outcome: Outcome, *words: str) -> None:
    """Exit status 2 and one line that holds all the words; no traceback."""
    assert outcome.status == 2, outcome
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    for garbled in ("unable to", "Value error", "allowed here"):
        assert garbled not in lines[0]
    for word in words:
        assert word in lines[0]


def stored(path: Path, revision: str, fingerprint: str = "f", **rates: float) -> None:
    """A run whose rows are named rates, each with samples that hardly differ."""
    with Store.open(path / "placerl.sqlite") as store:
        rows = [
            row_of(
                suite="s", primitive=name, quantity="rate", unit="1/s", provenance=Provenance.MEASURED,
                value=rate, samples=tuple(rate * (1 + k / 1000) for k in range(20)),
            )
            for name, rate in rates.items()
        ]  # fmt: skip
        store.begin_run("quick", revision, {"fingerprint": fingerprint}).finish("cell", rows)
