"""Every outcome that a claim's check can give, and that a test makes each check give each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import Claim, Outcome
from tests.harness.papers import outcomes

ROOT = Path(__file__).parents[3]
ELSEWHERE = ("tests/harness/compare/test_adapters.py",)
"""Tests of checks outside this folder, next to those of what the checks read."""

NOT_RUN = {Outcome.NOT_RUN}
COUNTED = {Outcome.CONSISTENT, Outcome.NO_VERDICT}
"""Counts and formulas."""
MODELLED = COUNTED | NOT_RUN
ORDERED = {Outcome.NOT_RUN, Outcome.NO_VERDICT, Outcome.NOT_REPRODUCED, Outcome.IN_KIND}
"""Numbers of ours, where the paper gives a direction or an order."""
EITHER = ORDERED | {Outcome.CONSISTENT}
"""The same, of rows that may be modelled instead."""
FACTOR = ORDERED | {Outcome.REPRODUCED}
"""Numbers of ours, where the paper gives a factor."""
BOUNDED = {Outcome.NOT_RUN, Outcome.NO_VERDICT, Outcome.NOT_REPRODUCED}
"""Upper bounds, which show nothing."""
ITERATED = BOUNDED | {Outcome.CONSISTENT}
"""Upper bounds, and modelled iterations, which can agree."""

WITHIN = FACTOR - {Outcome.IN_KIND} | {Outcome.CONSISTENT}
"""The same, where the paper gives a bound, of rows that may be modelled instead."""

OUTCOMES: dict[str, set[Outcome]] = {
    "MAP-IV-D1": FACTOR - {Outcome.IN_KIND},
    "MAP-IV-D3": ORDERED,
    "MAP-VI-A2-replay": FACTOR,
    "MAP-VI-A2-learner": FACTOR,
    "MAP-VI-B": WITHIN,
    "MAP-V-A": FACTOR - {Outcome.IN_KIND},
    "MAP-IV-C3": FACTOR - {Outcome.IN_KIND},
    "MAP-F10": FACTOR,
    "MAP-F11": ORDERED,
    "MAP-F11-Pong": ORDERED,
    "MAP-F11-CartPole": ORDERED,
    "MAP-F12-sampling": FACTOR,
    "MAP-F12-GPU": ORDERED,
    "MAP-F12-linear": ORDERED,
    "MAP-F12-update": FACTOR,
    "MAP-F12-threads": FACTOR - {Outcome.IN_KIND},
    "MAP-F13": WITHIN,
    "MAP-F13-hidden": ORDERED,
    "MAP-F13-CartPole": EITHER,
    "MAP-F13-sharing": FACTOR,
    "MAP-T5": MODELLED,
    "MAP-T5-gains": MODELLED,
    "MAP-T6-cells": MODELLED,
    "MAP-T6-parameters": COUNTED,
    "MAP-F14": ORDERED,
    "MAP-F14-CartPole": FACTOR,
    "MAP-T7": NOT_RUN,
    "PAL-F8": ORDERED,
    "PAL-V-B": ORDERED,
    "PAL-F9": ORDERED,
    "PAL-F9-locks": FACTOR,
    "PAL-A3": ORDERED,
    "PAL-F9-fanout": FACTOR,
    "PAL-F9-minimum": ORDERED,
    "PAL-F10": ORDERED,
    "PAL-F11": FACTOR,
    "PAL-F11-order": ORDERED,
    "PAL-F12": ORDERED,
    "PAL-VI-H-layout": ORDERED,
    "PRL-3.3.1": EITHER,
    "PRL-3.3.2": EITHER,
    "PRL-F6": ORDERED,
    "PRL-F7": ORDERED,
    "PRL-F8": EITHER,
    "PRL-F9": ORDERED,
    "PRL-T3": ORDERED,
    "PRL-T3-same-hardware": FACTOR,
    "PRL-T3-reallocation": FACTOR,
    "PRL-T3-device-portability": {
        Outcome.CONSISTENT,
        Outcome.NOT_REPRODUCED,
        Outcome.NOT_RUN,
    },
    "PRL-T3-platform-portability": ORDERED,
    "PRL-6.4-earlier-work": EITHER,
    "PRL-T4": COUNTED,
    "PPO-T1-cells": {Outcome.NO_VERDICT, Outcome.NOT_RUN},
    "PPO-T1-memory": COUNTED,
    "PPO-T2": BOUNDED,
    "PPO-T2-CPU": ITERATED,
    "PPO-5.2-side": COUNTED,
    "PPO-5.2-choice": COUNTED,
    "PPO-5.2-clock": NOT_RUN,
    "PPO-5.3.1-shared": FACTOR,
    "PPO-5.3.1-environment": ORDERED,
    "PPO-3.1": COUNTED,
    "PPO-F10": ITERATED,
    "PPO-F11": BOUNDED,
    "PPO-F12": EITHER - NOT_RUN,
    "PPO-F13": EITHER - NOT_RUN,
    "PPO-F14": ORDERED - NOT_RUN,
    "PPO-F15": ORDERED - NOT_RUN,
    "PPO-2.4": NOT_RUN,
    "FIX-F7": FACTOR,
    "FIX-F7-sweep": ORDERED,
    "FIX-F8": NOT_RUN,
    "FIX-F8-host": MODELLED,
    "FIX-F9": ORDERED,
    "FIX-F10": NOT_RUN,
    "FIX-F10-rate": MODELLED,
    "FIX-T1": MODELLED,
    "FIX-T1-adam": {Outcome.NO_VERDICT, Outcome.NOT_RUN},
    "FIX-T2": MODELLED,
    "FIX-III": COUNTED,
    "FIX-III-activations": COUNTED,
    "FIX-V-B": COUNTED,
    "FIX-V-C": MODELLED,
    "FIX-VI-A-clock": NOT_RUN,
    "FIX-VI-B-sizes": COUNTED,
}

_TWO_CLOCKS = (
    "The clocks lie more than four times apart, and so do the gains: one alone meets the printed ones."
)
_TWO_DESIGNS = "Each row that it compares says what is unknown of the paper's design."
NEVER: dict[str, dict[Outcome, str]] = {
    "PPO-5.3.1-environment": {Outcome.REPRODUCED: "Its two readings lie a factor of four or more apart."},
    "PPO-T1-cells": {Outcome.CONSISTENT: _TWO_DESIGNS},
    "PPO-F14": dict.fromkeys((Outcome.REPRODUCED, Outcome.CONSISTENT), _TWO_CLOCKS),
    "PPO-F15": dict.fromkeys((Outcome.REPRODUCED, Outcome.CONSISTENT), _TWO_CLOCKS),
    "FIX-T1-adam": {Outcome.CONSISTENT: _TWO_DESIGNS},
}
"""Outcomes that functions behind a check name and that the check of this claim cannot give, with the reason."""


def test_every_claim_lists_what_its_check_can_give() -> None:
    assert [claim.key for claim in papers.claims()] == list(OUTCOMES)


@pytest.mark.parametrize("claim", papers.claims(), ids=lambda claim: claim.key)
def test_what_the_code_of_a_check_names_is_listed(claim: Claim) -> None:
    never = NEVER.get(claim.key, {})
    assert outcomes.in_code(claim) <= OUTCOMES[claim.key] | never.keys()
    assert not never.keys() & OUTCOMES[claim.key]
    assert never.keys() <= outcomes.in_code(claim), "superfluous"


@pytest.mark.slow
def test_a_test_makes_each_check_give_each_of_its_outcomes(tmp_path: Path) -> None:
    """Runs the tests of the checks; the committed run, which `test_reads` judges, counts for none."""
    folder = Path(__file__).parent
    files = [
        str(path)
        for path in sorted(folder.rglob("test_*.py"))
        if path.name not in ("test_reads.py", Path(__file__).name)
    ]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow and not gpu"]
    plugin = ["-p", outcomes.__name__]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugin, *files, *ELSEWHERE],
        cwd=ROOT,
        env=os.environ | {outcomes.FILE: str(tmp_path / "given.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    given = json.loads((tmp_path / "given.json").read_text())
    listed = {key: sorted(some) for key, some in OUTCOMES.items()}
    assert given == listed
