"""Keeps what a study has found so far in a file, so that one that was killed goes on instead of beginning again.

The file holds the times of the pieces, the standing of every choice, and the rounds of the final that are done. It is
JSON, because reading it must not run code. A study that differs in anything that it names begins again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from placerl.harness.core.files import write_atomically
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, PerformanceTable, Target
from placerl.harness.measure.halving import Standing
from placerl.harness.validate.space import Setting

Seconds = Mapping[str, Mapping[int, float]]
"""Seconds by the name of what was timed, and by number of the round."""


@dataclass(frozen=True)
class Search:
    """What a study found before its final.

    Attributes:
        tables: the times of the pieces (calls of the training loop) of each setting.
        standings: the standing of each choice that was run, by its text, the finalists first.
        failures: why a choice could not be run, by its text.
    """

    tables: Mapping[Setting, PerformanceTable]
    standings: Mapping[str, Standing]
    failures: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the search as JSON."""
        tables = [[setting, [_to_json(entry) for entry in table]] for setting, table in self.tables.items()]
        standings = {name: astuple(standing) for name, standing in self.standings.items()}
        return {"tables": tables, "standings": standings, "failures": self.failures}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Search":
        """Return the search that `to_json` gave."""
        tables = {
            Setting(*setting): PerformanceTable(map(_from_json, table)) for setting, table in stored["tables"]
        }
        standings = {
            name: Standing(heats, tuple(rates)) for name, (heats, rates) in stored["standings"].items()
        }
        return cls(tables, standings, stored["failures"])


@dataclass(frozen=True)
class FinalRounds:
    """The rounds of a final that are done.

    Attributes:
        seconds: seconds of each piece's call, and of a gradient step of each training, as the clock had them.
        left: names of the trainings that may still be the fastest; None: all.
        spent_s: seconds that the rounds took, with what preceded them.
    """

    seconds: Seconds = field(default_factory=dict)
    left: Sequence[str] | None = None
    spent_s: float = 0.0

    @property
    def count(self) -> int:
        """Return the number of rounds."""
        return 1 + max((number for by in self.seconds.values() for number in by), default=-1)

    def followed_by(self, seconds: Seconds) -> Seconds:
        """Return these rounds and later ones, whose numbers start at 0 again."""
        first = self.count
        return {
            name: {
                **self.seconds.get(name, {}),
                **{first + number: s for number, s in seconds.get(name, {}).items()},
            }
            for name in self.seconds.keys() | seconds.keys()
        }


@dataclass(frozen=True)
class StudyFile:
    """The file of a study.

    Attributes:
        path: its path; None: nothing is kept.
        study: what the study is of. A file that states something else is not read.
    """

    path: Path | None = None
    study: Mapping[str, Any] = field(default_factory=dict)

    def search(self) -> Search | None:
        """Return what was found before the final; None if the study has not come so far."""
        stored = self._read()
        return Search.from_json(stored["search"]) if stored else None

    def rounds(self) -> FinalRounds:
        """Return the rounds of the final that are done."""
        final = self._read().get("final")
        if not final:
            return FinalRounds()
        seconds = {
            name: {int(number): s for number, s in by.items()} for name, by in final["seconds"].items()
        }
        return FinalRounds(seconds, final["left"], final["spent_s"])

    def begin_final(self, search: Search) -> None:
        """Keep what was found before the final."""
        self._write({"study": self.study, "search": search.to_json()})

    def keep(self, rounds: FinalRounds) -> None:
        """Keep the rounds of the final; `begin_final` precedes it."""
        if stored := self._read():
            final = {"seconds": rounds.seconds, "left": rounds.left, "spent_s": rounds.spent_s}
            self._write({**stored, "final": final})

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self.path:
            self.path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        if self.path is None or not self.path.exists():
            return {}
        stored: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return stored if stored["study"] == self.study else {}

    def _write(self, values: Mapping[str, Any]) -> None:
        if self.path is not None:
            text = json.dumps(values)
            write_atomically(self.path, lambda path: path.write_text(text, encoding="utf-8"))


NO_FILE = StudyFile()
"""Keeps nothing."""


def _to_json(entry: Entry) -> list[Any]:
    times_s = (entry.time_s, entry.low_s, entry.high_s)
    return [entry.primitive, str(entry.target), entry.batch_size, *times_s, str(entry.provenance)]


def _from_json(values: Sequence[Any]) -> Entry:
    primitive, target, batch_size, time_s, low_s, high_s, provenance = values
    return Entry(primitive, Target.parse(target), batch_size, time_s, low_s, high_s, Provenance(provenance))
