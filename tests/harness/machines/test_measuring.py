"""The card that is measured holds every figure, and nobody's name."""

import getpass
import json
import socket
from pathlib import Path

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.machines import measuring
from placerl.harness.machines.card import Card, Unit
from placerl.harness.machines.probes import AGAIN, INTERPRETER, Probe
from placerl.harness.measure.statistics import Samples
from placerl.harness.measure.timed_case import Case, Timing


def broken(_: object) -> None:
    raise FileNotFoundError("/home/somebody/model.bin")


def idle(name: str) -> Case[None]:
    return Case(name, lambda: None, lambda _: None, lambda _, rng: None, lambda _, __: sum(range(1000)))


@pytest.mark.parametrize(("unit", "found"), [("s", (1.0, 0.5, 2.0)), ("B/s", (1.0, 0.5, 2.0))])
def test_a_figure_is_of_one_repetition_or_one_second(unit: Unit, found: tuple[float, ...]) -> None:
    timing = Timing("a", "ok", "", median_s=2.0, low_s=1.0, high_s=4.0)
    figure = measuring.figure(Probe("a", unit, 2, idle("a")), timing)
    assert (figure.value, figure.low, figure.high) == found


def test_a_card_has_a_figure_for_each_probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = Case("bad", lambda: None, broken, lambda _, rng: None, lambda _, __: None)
    every = [
        Probe(INTERPRETER, "s", 2, idle(INTERPRETER)),
        Probe(AGAIN, "s", 2, idle(AGAIN)),
        Probe("rate", "1/s", 1000, idle("rate")),
        Probe("bad", "s", 1, failing),
        Probe("absent", "s", 1, idle("absent"), "needs /opt/mine/lib"),
    ]
    monkeypatch.setattr(measuring, "probes", lambda: every)
    card = measuring.measure(silent, 0.0)
    figures = {one.name: one for one in card.figures}
    assert set(figures) == {INTERPRETER, "rate", "bad", "absent", "noise.again"}
    assert 0.2 < (figures["noise.again"].value or 0) < 5
    assert figures["bad"].status == "failed"
    assert figures["absent"].status == "not_run"
    card.write(tmp_path / "card.json")
    text = (tmp_path / "card.json").read_text()
    assert Card.read(tmp_path / "card.json") == card
    for private in ("somebody", "/opt", "/home", socket.gethostname()):
        assert private not in text
    assert getpass.getuser() not in json.dumps(card.facts.model_dump(mode="json")).split()


def test_copies_without_rounds_in_common_leave_the_noise_unknown() -> None:
    """A block that the scheduler interrupts is left out, and that of another copy in another round."""
    samples = Samples(np.ones(5), np.zeros(5))
    early, late = (Timing("a", "ok", "", samples, rounds=tuple(range(first, first + 5))) for first in (0, 3))
    figure = measuring._noise(early, late)
    assert (figure.status, figure.value) == ("failed", None)
    assert figure.reason == "2 pairs, where 5 are the fewest"
