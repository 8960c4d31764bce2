"""`placerl run`: what it refuses, what it shows, and what is kept of a run that ended early."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from placerl.harness.cli import run_command
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.plan import predicting
from placerl.harness.platforms.energy import EnergyMeter
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.training import Progress, Training
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.workloads.schema import Seed
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.papers.rows import predicted


def test_a_workload_for_which_nothing_was_chosen_is_one_line_with_the_reason(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = replace(
        predicted(1.0, backend=DEFAULT_STRATEGY, details={}),
        value=None,
        low=None,
        high=None,
        status="not_run",
        reason="needs: x",
    )
    monkeypatch.setattr(predicting, "predicted", lambda *_: [lacking])
    outcome = placerl("run", "cartpole-dqn", "--results", str(tmp_path))
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1] == f"placerl: not run: {DEFAULT_STRATEGY} needs: x"


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("", ("mapping", "found ''; allowed: LEARNER-RMM-STORAGE")),
        ("torch-native", ("mapping", "LEARNER-RMM-STORAGE")),
        ("abacus-native-cpu", ("learner: found abacus; allowed: reference, cuda, fpga, native",)),
        ("torch-abacus-cpu", ("abacus", "native")),
        ("torch-native-moon", ("moon", "cpu")),
        (
            "torch:cuda:99-native-cpu",
            ("learner: found torch:cuda:99; allowed: cpu, or a CUDA device of this machine, which has",),
        ),
        ("torch-native:moon-cpu", ("native:moon", "one device")),
        ("native[fixd32]-native-cpu", ("found fixd32", "did you mean fixed32?")),
        ("opencl[fixed32]-native-cpu", ("learner: found opencl[fixed32]; allowed: opencl",)),
    ],
)
def test_a_mapping_to_what_is_not_there_is_refused(
    placerl: Placerl, tmp_path: Path, mapping: str, words: tuple[str, ...]
) -> None:
    results = tmp_path / "results"
    outcome = placerl("run", "cartpole-dqn", "--mapping", mapping, "--results", str(results))
    refused(outcome, *words)
    assert not results.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--processes", "3"], ("actor processes: found 3", "training.actors")),
        (["--presampled-batches", "99999"], ("presampled_batches: found 99999",)),
        (["--actors", "0"], ("--actors", "training.actors: found 0")),
        (["--actors", "4000", "--processes", "4000"], ("actor processes: found 4000", "GB of memory")),
        (["--reallocate"], ("reallocate: found 0 actor processes",)),
        (["--learners", "0"], ("--learners", "'0'")),
        (["--shards", "4"], ("--shards: found 4; allowed: nothing without --ray",)),
        (["--place", "learners=big"], ("--place: found learners=big; allowed: nothing without --ray",)),
        (["--ray", ""], ("--ray: found ''",)),
        (["--seconds", "2", "--steps", "9"], ("--seconds: found 2 and --steps 9; allowed: one of them",)),
        (["--seconds", "inf"], ("--seconds", "less than or equal to 10000000")),
        (["--seconds", "nan"], ("--seconds", "nan")),
        (["--steps", "1" + "0" * 23], ("--steps", "less than or equal to 1000000000000")),
        (["--seed", str(run_command.MOST_SEED + 1)], ("--seed", "less than or equal to 4294967295")),
        (["--fusion", "step"], ("fusion: found step; allowed: none, replay",)),
        (["--deferred-insertion"], ("deferred_insertion: found True; allowed: False without overlap",)),
        (["--single-buffered"], ("single_buffered: found True; allowed: False without overlap",)),
        (["--streams", "2"], ("streams: found 2; allowed: 1: only a learner on opencl or fpga has streams",)),
        (["--streamed"], ("streamed: found True; allowed: False: only a learner on the simulated FPGA",)),
        (
            ["--ray", "local", "--single-buffered"],
            ("--single-buffered: found True; allowed: nothing with --ray",),
        ),
    ],
)
def test_options_that_nothing_can_give_are_refused(
    placerl: Placerl, tmp_path: Path, options: list[str], words: tuple[str, ...]
) -> None:
    results = tmp_path / "results"
    outcome = placerl(
        "run", "cartpole-dqn", "--mapping", "torch-native-cpu", *options, "--results", str(results)
    )
    refused(outcome, *words)
    assert not results.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--mapping", "torch-native-cpu"],
            "--mapping: found torch-native-cpu; allowed: native-native-cpu with --auto",
        ),
        (["--learners", "2"], "--learners: found 2; allowed: nothing with --auto"),
        (["--presampled-batches", "99999"], "--presampled-batches: training.presampled_batches: found 99999"),
    ],
)
def test_what_is_divided_by_measurement_cannot_be_given_and_batches_ahead_must_fit(
    placerl: Placerl, tmp_path: Path, options: list[str], words: str
) -> None:
    results = tmp_path / "results"
    refused(placerl("run", "cartpole-dqn", "--auto", *options, "--results", str(results)), words)
    assert not results.exists()


@pytest.mark.parametrize("options", [["--processes", "3"], ["--threads", "4000"], ["--actors", "0"]])
def test_options_that_nothing_can_give_are_refused_before_a_mapping_is_chosen(
    placerl: Placerl, tmp_path: Path, options: list[str]
) -> None:
    results = tmp_path / "results"
    refused(placerl("run", "cartpole-dqn", *options, "--results", str(results)), f"found {options[1]}")
    assert not results.exists()


def test_a_seed_on_the_command_line_has_the_limit_of_a_workload_s() -> None:
    seed: TypeAdapter[int] = TypeAdapter(Seed)
    assert seed.validate_python(run_command.MOST_SEED) == run_command.MOST_SEED
    with pytest.raises(ValidationError):
        seed.validate_python(run_command.MOST_SEED + 1)


@pytest.mark.parametrize(
    ("learner", "options", "words"),
    [
        ("native[fixed32]", ["--delay", "9"], ("delay: found 9", "precision dynamic")),
        ("native", ["--delay", "9"], ("delay: found 9", "precision dynamic")),
        ("native[dynamic]", ["--delay", "0"], ("--delay",)),
        ("native[dynamic]", ["--steps", "9"], ("delay: found 1000; allowed: less than the run's 9",)),
        ("native[dynamic]", ["--steps", "9", "--delay", "9"], ("delay: found 9; allowed: less than",)),
        ("native[fixed32]", ["--learners", "2"], ("learner: found native[fixed32]; allowed: torch",)),
    ],
)
def test_options_that_a_learner_in_fixed_point_lacks_are_refused(
    placerl: Placerl, tmp_path: Path, learner: str, options: list[str], words: tuple[str, ...]
) -> None:
    results = tmp_path / "results"
    mapping = f"{learner}-native-cpu"
    refused(placerl("run", "cartpole-dqn", "--mapping", mapping, *options, "--results", str(results)), *words)
    assert not results.exists()


@pytest.mark.parametrize(
    ("precision", "options", "stated"),
    [
        ("fixed32", ["--steps", "3"], {}),
        ("bfloat16", ["--steps", "3"], {}),
        ("dynamic", ["--steps", "3", "--delay", "2"], {"delay": 2, "narrowed": True}),
        # The 50 steps of the warm-up count, as they do for the learner.
        ("dynamic", ["--seconds", "1", "--delay", "40"], {"delay": 40, "narrowed": True}),
        ("dynamic", ["--seconds", "1", "--delay", "900000"], {"delay": 900_000, "narrowed": False}),
    ],
)
def test_run_trains_in_another_precision_and_says_so(
    placerl: Placerl, tmp_path: Path, precision: str, options: list[str], stated: dict[str, object]
) -> None:
    mapping = f"native[{precision}]-native-cpu"
    asked = ("run", "cartpole-dqn", "--mapping", mapping, *options, "--results", str(tmp_path))
    outcome = placerl(*asked)
    assert outcome.status == 0
    assert mapping in outcome.out, "a terminal's markup must not swallow the precision"
    assert ("narrowed" in outcome.out) == bool(stated)
    assert (
        not stated
        or (f"after {stated['delay']} gradient steps" if stated["narrowed"] else "never") in outcome.out
    )
    rows = {row["quantity"]: row for row in json.loads(placerl(*asked, "--json").out)}
    row = rows["gradient_steps_per_s"]
    assert row["mapping"] == mapping
    assert {name: row[name] for name in ("delay", "narrowed") if row[name] is not None} == stated


def test_run_trains_under_a_mapping_and_each_run_is_stored(placerl: Placerl, tmp_path: Path) -> None:
    arguments = ("run", "cartpole-dqn", "--mapping", "torch-native-cpu", "--steps", "50")
    for _ in range(2):
        outcome = placerl(*arguments, "--results", str(tmp_path), "--json")
        assert outcome.status == 0
        rows = {row["quantity"]: row for row in json.loads(outcome.out)}
        assert rows["gradient_steps_per_s"]["provenance"] == "measured"
    exported = placerl("export", "--results", str(tmp_path))
    assert exported.status == 0
    measurements = next(line for line in exported.out.splitlines() if line.endswith("measurements.csv"))
    assert Path(measurements).read_text().count("gradient_steps_per_s") == 2


@pytest.mark.parametrize(
    ("mapping", "options"),
    [
        ("native-native-cpu", {"initial_priorities": "actor"}),
        ("torch-native-cpu", {"overlap": 8, "deferred_insertion": True, "single_buffered": True}),
        ("fpga-native-cpu", {"streamed": True}),
    ],
)
def test_run_stores_how_the_loop_ran(
    placerl: Placerl, tmp_path: Path, mapping: str, options: dict[str, object]
) -> None:
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    arguments = ("run", "cartpole-dqn", "--mapping", mapping, "--steps", "2", *words)
    outcome = placerl(*arguments, "--results", str(tmp_path), "--json")
    assert outcome.status == 0
    rows = {row["quantity"]: row for row in json.loads(outcome.out)}
    assert rows["gradient_steps_per_s"]["options"] == options


def test_run_shows_the_papers_rates_and_throughput_per_watt_or_what_it_needs(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = EnergyMeter(reason="no counter")
    monkeypatch.setattr(measured_run, "meter_of", lambda devices, simulated: unread)
    arguments = (
        "run",
        "cartpole-dqn",
        "--mapping",
        "native-native-cpu",
        "--batch-size",
        "32",
        "--steps",
        "50",
    )
    outcome = placerl(*arguments, "--results", str(tmp_path))
    assert outcome.status == 0
    assert "gradient steps/s/W: not run: needs watts: no counter" in outcome.out
    assert re.search(r"^[\d,.]+ gradient steps/s( \[[\d,. ]+\])? \(measured\)$", outcome.out, re.MULTILINE)
    assert re.search(r"EPS [\d,]+ experiences/s, IPS [\d,]+ inferences/s \(measured\)", outcome.out)


def test_ctrl_c_says_so_and_shows_what_was_measured(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, calls = Training.advance, []

    def stops(self: Training, gradient_steps: int) -> Progress:
        calls.append(gradient_steps)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return advance(self, gradient_steps)

    monkeypatch.setattr(Training, "advance", stops)
    arguments = (
        "run",
        "cartpole-dqn",
        "--mapping",
        "native-native-cpu",
        "--results",
        str(tmp_path),
        "--json",
    )
    outcome = placerl(*arguments)
    assert (outcome.status, outcome.err.count("interrupted")) == (130, 1)
    rows = {row["quantity"]: row for row in json.loads(outcome.out)}
    assert rows["gradient_steps_per_s"]["gradient_steps"] == sum(calls[:2])
    assert rows["failure"]["reason"] == "interrupted"


def test_a_run_whose_unit_dies_keeps_what_was_measured(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, calls = Training.advance, []

    def dies(self: Training, gradient_steps: int) -> Progress:
        calls.append(gradient_steps)
        if len(calls) > 3:
            raise UnitError("actor 0: its process was ended by SIGKILL")
        return advance(self, gradient_steps)

    monkeypatch.setattr(Training, "advance", dies)
    outcome = placerl(
        *("run", "cartpole-dqn", "--mapping", "torch-native-cpu", "--steps", "100000000"),
        *("--results", str(tmp_path), "--json"),
    )
    assert outcome.status == 1
    rows = {row["quantity"]: row for row in json.loads(outcome.out)}
    assert rows["failure"]["reason"] == "UnitError: actor 0: its process was ended by SIGKILL"
    assert len(rows["gradient_steps_per_s"]["samples"]) == 2  # without the step that sizes the others
    exported = placerl("export", "--results", str(tmp_path))
    measurements = next(line for line in exported.out.splitlines() if line.endswith("measurements.csv"))
    text = Path(measurements).read_text()
    assert "gradient_steps_per_s" in text
    assert "ended by SIGKILL" in text
