"""The command line as a user meets it: what it prints, its exit status, and that bad input changes nothing."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import claims, cli, training_run, workload
from harness.cli.common import named_baselines, print_rows
from harness.energy import EnergyMeter
from harness.mapping import STRATEGIES
from harness.provenance import Provenance
from harness.runtime.training import Progress, Training
from harness.runtime.unit import UnitError
from harness.store import Measurement, Store


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


Placerl = Callable[..., Outcome]


@pytest.fixture
def placerl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Placerl:
    """Runs the command line in this process."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["placerl", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.run_app()
        code = stopped.value.code
        captured = capsys.readouterr()
        return Outcome(code if isinstance(code, int) else int(code is not None), captured.out, captured.err)

    return run


def refused(outcome: Outcome, *words: str) -> None:
    """Exit status 2 and one line that holds all the words; no traceback."""
    assert outcome.status == 2, outcome
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    for garbled in ("unable to", "Value error", "allowed here"):
        assert garbled not in lines[0]
    for word in words:
        assert word in lines[0]


COMMANDS = (
    "baselines",
    "compare",
    "diff",
    "doctor",
    "export",
    "learn",
    "map",
    "merge",
    "profile",
    "report",
    "reproduce",
    "rtl",
    "run",
    "validate",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(placerl: Placerl, command: str) -> None:
    outcome = placerl(command, "--help")
    assert outcome.status == 0
    assert f"Example: placerl {command}" in outcome.out.replace("`", "")


def test_doctor_as_json_says_which_backends_run_and_why_others_do_not(placerl: Placerl) -> None:
    outcome = placerl("doctor", "--json")
    assert outcome.status == 0
    description = json.loads(outcome.out)
    assert description["cpu"]["usable_cores"] >= 1
    for backend in description["backends"]:
        assert backend["available"] == (backend["reason"] == "")


@pytest.mark.parametrize("reason", ["needs tensor units", "not run: needs tensor units"])
def test_what_was_not_run_says_what_it_needs_and_is_of_no_provenance(
    capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    """DESIGN: what cannot run here reads `not run: needs X`; nothing was simulated, measured or modelled."""
    row = Measurement(
        suite="s", primitive="p", quantity="q", unit="s", provenance=Provenance.SIMULATED,
        status="not_run", reason=reason,
    )  # fmt: skip
    print_rows([row], "title", as_json=False)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "tensor" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells == ["p", "", "", "q", "not run: needs tensor units", "", "s", ""]


def test_an_unknown_workload_is_refused_with_the_known_ones(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("map", "hoper-ddpg", "--results", str(results)), "hoper-ddpg", "hopper-ddpg")
    assert not results.exists()


@pytest.mark.parametrize("size", ["0", "-1", "100000000"])
def test_a_batch_size_out_of_range_is_refused(placerl: Placerl, tmp_path: Path, size: str) -> None:
    results = tmp_path / "results"
    outcome = placerl("map", "cartpole-dqn", "--batch-size", size, "--results", str(results))
    refused(outcome, "batch", size)
    assert not results.exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("capacity = ", "capacity = 16 #", ("replay.capacity", "16")),
        ("fanout = 16", "fanout = 1", ("replay.fanout", "1")),
        ("fanout = 16", "fanout = 257", ("replay.fanout", "257", "256")),
        ("fanout = 16", 'fanout = "wide"', ("replay.fanout", "wide")),
        ("batch_size = ", "batch_size = 0 #", ("training.batch_size", "0")),
        ("fanout = ", "fanuot = ", ("replay.fanuot",)),
        ('id = "CartPole-v1"', 'id = "CartPoul-v1"', ("environment.id", "CartPoul-v1")),
        ("[replay]", "[replay", ("line",)),
    ],
)
def test_a_broken_workload_file_is_refused(
    placerl: Placerl, tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    text = (Path(workload.__file__).parent / "workloads" / "cartpole-dqn.toml").read_text()
    assert old in text
    path, results = tmp_path / "broken.toml", tmp_path / "results"
    path.write_text(text.replace(old, new, 1))
    refused(placerl("profile", str(path), "--results", str(results)), "broken.toml", *words)
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], ("frobnicate", "placerl --help")),
        (["profile"], ("WORKLOAD", "found nothing")),
        (["baselines", "nope"], ("NAMES", "'nope'", "sb3")),
        (["baselines", ""], ("NAMES", "found ''")),
        (["report", "--bogus"], ("--bogus", "placerl report --help")),
        (["run", "cartpole-dqn", "--seconds", "0"], ("--seconds", "'0'", "greater than or equal to 1")),
        (
            ["profile", "cartpole-dqn", "--batch-size", "abc"],
            ("--batch-size: found 'abc'; allowed: a valid integer",),
        ),
        (
            ["run", "cartpole-dqn", "--fusion", "xyz"],
            ("--fusion: found 'xyz'; allowed: 'none', 'replay', 'step'",),
        ),
    ],
)
def test_arguments_that_no_command_takes_are_refused(
    placerl: Placerl, arguments: list[str], words: tuple[str, ...]
) -> None:
    refused(placerl(*arguments), *words)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("", ("mapping", "found ''; allowed: LEARNER-RMM-STORAGE")),
        ("torch-native", ("mapping", "LEARNER-RMM-STORAGE")),
        ("abacus-native-cpu", ("learner: found abacus; allowed: torch, ",)),
        ("torch-abacus-cpu", ("abacus", "native")),
        ("torch-native-moon", ("moon", "cpu")),
        (
            "torch:cuda:99-native-cpu",
            ("learner: found torch:cuda:99; allowed: one of this machine's CUDA devices",),
        ),
        ("torch-native:moon-cpu", ("native:moon", "one device")),
    ],
)
def test_a_mapping_to_what_is_not_there_is_refused(
    placerl: Placerl, tmp_path: Path, mapping: str, words: tuple[str, ...]
) -> None:
    results = tmp_path / "results"
    outcome = placerl("run", "cartpole-dqn", "--mapping", mapping, "--results", str(results))
    refused(outcome, *words)
    assert not results.exists()


def test_a_platform_that_is_unknown_or_lacks_a_number_is_refused_with_the_field(
    placerl: Placerl, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    refused(
        placerl("map", "pong-dqn", "--platform", "abacus", "--results", str(results)), "abacus", "map-tpds23"
    )
    outcome = placerl("map", "cartpole-ddpg", "--platform", "pearl24-discrete", "--results", str(results))
    refused(outcome, "pearl24-discrete", "device 'cpu'.peak_tops")
    path = tmp_path / "unlinked.toml"
    text = (Path(workload.__file__).parent / "platforms" / "pal21.toml").read_text()
    path.write_text(text[: text.index("[[link]]")])
    refused(
        placerl("map", "cartpole-ddpg", "--platform", str(path), "--results", str(results)), "link", "'gpu'"
    )
    assert not results.exists()


def test_a_mapping_for_another_platform_is_modelled_and_stores_nothing(
    placerl: Placerl, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    asked = ("map", "cartpole-ddpg", "--batch-size", "32", "--platform", "map-tpds23")
    outcome = placerl(*asked, "--results", str(results))
    assert outcome.status == 0
    assert "MAP Table V prints F-F-F" in outcome.out
    assert re.search(r"pearl24 chooses \S+ with streams = 1", outcome.out)
    assert "measured" not in outcome.out
    assert not results.exists()


def test_a_cell_of_the_validation_that_is_not_there_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    outcome = placerl("validate", "--only", "tetris", "--results", str(results))
    refused(outcome, "--only", "tetris", "validation/cartpole-ddpg/32")
    assert not results.exists()


def test_learning_under_a_mapping_to_what_is_not_there_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("learn", "--mapping", "abacus-native-cpu", "--results", str(results)), "abacus")
    assert not results.exists()


def test_only_what_trains_can_be_compared_in_learning(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("learn", "--baselines", "sb3,cpprb", "--results", str(results)), "found 'cpprb'", "sb3")
    assert not results.exists()
    assert "cpprb" in named_baselines("all")
    assert "cpprb" not in named_baselines("all", training=True)


def test_a_workload_file_that_changed_is_measured_again(placerl: Placerl, tmp_path: Path) -> None:
    text = (Path(workload.__file__).parent / "workloads" / "cartpole-dqn.toml").read_text()
    path, names = tmp_path / "mine.toml", set()
    for capacity in (4000, 5000):
        path.write_text(re.sub(r"(?m)^capacity = .*$", f"capacity = {capacity}", text))
        outcome = placerl("map", str(path), "--results", str(tmp_path / "results"), "--json")
        assert outcome.status == 0
        names |= {row["workload"] for row in json.loads(outcome.out)}
    assert len(names) == 2


def test_a_folder_where_the_store_should_be_is_named_as_such(placerl: Placerl, tmp_path: Path) -> None:
    (tmp_path / "placerl.sqlite").mkdir()
    refused(placerl("report", "--results", str(tmp_path)), "found something that is no file")


def test_an_unwritable_results_folder_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    refused(placerl("map", "cartpole-dqn", "--results", str(in_the_way / "results")), str(in_the_way))
    assert in_the_way.read_text() == "not a folder"


def test_a_report_as_json_has_every_verdict(placerl: Placerl, tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r1", {"fingerprint": "f"})
    outcome = placerl("report", "--results", str(tmp_path), "--json")
    assert outcome.status == 0
    answer = json.loads(outcome.out)
    assert Path(answer["report"]).is_file()
    assert {verdict["key"] for verdict in answer["verdicts"]} == {claim.key for claim in claims.claims()}
    assert all(verdict["ours"] for verdict in answer["verdicts"] if verdict["verdict"] != "not run")


def test_a_report_of_no_run_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    refused(placerl("report", "--results", str(tmp_path / "none")), "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", ["reproduce", "map"])
def test_an_unknown_tier_is_refused(placerl: Placerl, tmp_path: Path, command: str) -> None:
    arguments = ["cartpole-dqn"] if command == "map" else []
    outcome = placerl(command, *arguments, "--tier", "instant", "--results", str(tmp_path / "results"))
    refused(outcome, "--tier", "instant", "quick")
    assert not (tmp_path / "results").exists()


def test_an_unknown_baseline_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    outcome = placerl(
        "compare", "cartpole-dqn", "--baselines", "sb3,sb4", "--results", str(tmp_path / "results")
    )
    refused(outcome, "sb4", "sb3")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("cartpole-ppo", "--alone"), ("--alone", "learns from a replay")),
        (("cartpole-dqn", "--alone", "--envpool"), ("--envpool", "no environment")),
        (("cartpole-ddpg", "--envpool"), ("envpool", "allowed")),
    ],
)
def test_what_cannot_be_compared_is_refused_first(
    placerl: Placerl, tmp_path: Path, asked: tuple[str, ...], said: tuple[str, str]
) -> None:
    refused(placerl("compare", *asked, "--results", str(tmp_path / "results")), *said)
    assert not (tmp_path / "results").exists()


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
    assert rows["gradient_steps_per_s"]["details"]["gradient_steps"] == sum(calls[:2])
    assert rows["failure"]["reason"] == "interrupted"


def test_map_measures_once_and_answers_from_the_store_afterwards(placerl: Placerl, tmp_path: Path) -> None:
    arguments = ("map", "cartpole-dqn", "--batch-size", "32", "--results", str(tmp_path), "--json")
    first, second = placerl(*arguments), placerl(*arguments)
    assert first.status == second.status == 0
    assert json.loads(first.out) == json.loads(second.out)
    chosen = [row for row in json.loads(first.out) if row["details"].get("chosen")]
    assert {row["backend"] for row in chosen} == set(STRATEGIES)
    assert all(row["provenance"] == "modelled" and row["value"] > 0 for row in chosen)


def test_run_trains_under_a_mapping_and_each_run_is_stored(placerl: Placerl, tmp_path: Path) -> None:
    arguments = ("run", "cartpole-dqn", "--mapping", "torch-native-cpu", "--seconds", "1")
    for _ in range(2):
        outcome = placerl(*arguments, "--results", str(tmp_path), "--json")
        assert outcome.status == 0
        rows = {row["quantity"]: row for row in json.loads(outcome.out)}
        assert rows["gradient_steps_per_s"]["provenance"] == "measured"
    exported = placerl("export", "--results", str(tmp_path))
    assert exported.status == 0
    measurements = next(line for line in exported.out.splitlines() if line.endswith("measurements.csv"))
    assert Path(measurements).read_text().count("gradient_steps_per_s") == 2


def test_run_shows_the_papers_rates_and_throughput_per_watt_or_what_it_needs(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = EnergyMeter(reason="no counter")
    monkeypatch.setattr(training_run, "meter_of", lambda mapping, simulated: unread)
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
    assert "throughput_per_watt" in re.sub(r"[^a-z_]", "", outcome.out.replace("\n", ""))
    assert re.search(r"EPS [\d,]+ experiences/s, IPS [\d,]+ inferences/s \(measured\)", outcome.out)


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
        (["--seconds", "2", "--steps", "9"], ("--seconds: found 2 beside --steps 9; allowed: one of them",)),
        (["--seconds", "inf"], ("--seconds", "less than or equal to 10000000")),
        (["--seconds", "nan"], ("--seconds", "nan")),
        (["--steps", "1" + "0" * 23], ("--steps", "less than or equal to 1000000000000")),
        (["--fusion", "step"], ("fusion: found step; allowed: none, replay",)),
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


def stored(path: Path, revision: str, fingerprint: str = "f", **rates: float) -> None:
    """A run whose rows are named rates, each with samples that hardly differ."""
    with Store.open(path / "placerl.sqlite") as store:
        rows = [
            Measurement(
                suite="s", primitive=name, quantity="rate", unit="1/s", provenance=Provenance.MEASURED,
                value=rate, samples=tuple(rate * (1 + k / 1000) for k in range(20)),
            )
            for name, rate in rates.items()
        ]  # fmt: skip
        store.begin_run("quick", revision, {"fingerprint": fingerprint}).finish("cell", rows)


def test_diff_says_which_way_each_quantity_went(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path, "r1", rose=1.0, fell=1.0, stayed=1.0)
    stored(tmp_path, "r2", rose=2.0, fell=0.5, stayed=1.01)
    outcome = placerl("diff", f"{tmp_path}#1", str(tmp_path), "--all", "--json")
    assert outcome.status == 0
    verdicts = {row["key"]["primitive"]: row["verdict"] for row in json.loads(outcome.out)}
    assert verdicts == {"rose": "better", "fell": "worse", "stayed": "no verdict"}
    assert "better: 1, worse: 1, no verdict: 1" in placerl("diff", f"{tmp_path}#1", f"{tmp_path}#2").out
    refused(placerl("diff", f"{tmp_path}#3", str(tmp_path)), "RUN", "#3", "1, 2")


def test_diff_of_two_machines_gives_no_verdict(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", "laptop", rose=1.0)
    stored(tmp_path / "b", "r1", "server", rose=2.0)
    assert (
        "better: 0, worse: 0, no verdict: 1" in placerl("diff", str(tmp_path / "a"), str(tmp_path / "b")).out
    )


def test_merge_takes_in_each_run_once(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", "laptop", rate=1.0)
    stored(tmp_path / "b", "r1", "server", rate=2.0)
    arguments = ("merge", str(tmp_path / "a"), str(tmp_path / "b"), "--results", str(tmp_path / "merged"))
    for _ in range(2):
        assert placerl(*arguments).status == 0
    with Store.open(tmp_path / "merged" / "placerl.sqlite", read_only=True) as store:
        assert [run.fingerprint for run in store.runs()] == ["laptop", "server"]
        assert [row.value for row in store.measurements()] == [1.0, 2.0]


def test_merge_of_a_missing_store_writes_nothing(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", rate=1.0)
    arguments = (str(tmp_path / "a"), str(tmp_path / "none"), "--results", str(tmp_path / "merged"))
    refused(placerl("merge", *arguments), "none")
    assert not (tmp_path / "merged").exists()
    refused(placerl("merge", str(tmp_path / "a"), "--results", str(tmp_path / "a")), "RUN", "other than")


def test_merge_of_a_store_with_damaged_rows_writes_nothing(placerl: Placerl, tmp_path: Path) -> None:
    for name in ("a", "b"):
        stored(tmp_path / name, "r1", name, rate=1.0)
    with closing(sqlite3.connect(tmp_path / "b" / "placerl.sqlite")) as database, database:
        database.execute("UPDATE measurement SET details = CAST(x'ff' AS TEXT)")
    arguments = (str(tmp_path / "a"), str(tmp_path / "b"), "--results", str(tmp_path / "merged"))
    refused(placerl("merge", *arguments), "UTF-8", "allowed: an undamaged PlaceRL store")
    assert not (tmp_path / "merged").exists()


def test_rtl_writes_verilog(placerl: Placerl, tmp_path: Path) -> None:
    pytest.importorskip("amaranth")
    outcome = placerl(
        "rtl", "replay-pipeline", "fanout=2", "levels=2", "leaf_bits=4", "-o", str(tmp_path / "a" / "b")
    )
    assert outcome.status == 0, outcome
    path = Path(outcome.out.strip())
    assert path == tmp_path / "a" / "b" / "replay_pipeline.v"
    text = path.read_text()
    assert "module replay_pipeline(" in text
    assert "fanout=2 levels=2 leaf_bits=4" in text.splitlines()[0]


def test_rtl_refuses_a_folder_that_cannot_be_written_before_it_exports(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verilog = pytest.importorskip("primitives.fpga.verilog")
    monkeypatch.setattr(verilog, "export", lambda *_: pytest.fail("exported"))
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        refused(
            placerl("rtl", "layout-transform", "-o", str(folder)), str(folder), "a folder that can be written"
        )
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-block"], ["BLOCK", "no-such-block", "replay-pipeline"]),
        (["replay-pipeline", "fanout=4", "fanout=2"], ["fanout: found 4 and 2", "each parameter once"]),
        (["replay-pipeline", "fanout"], ["PARAMETER=VALUE", "found fanout"]),
        (["replay-pipeline", "depth=2"], ["found 'depth'", "fanout, levels"]),
        (["replay-pipeline", "fanout=two"], ["fanout", "found 'two'", "2 to 256"]),
        (["replay-pipeline", "fanout=1"], ["fanout", "found '1'", "2 to 256"]),
        (["replay-pipeline", "fanout=256", "levels=5"], ["leaf_bits", "found 32", "at most 63 bits"]),
        (["replay-pipeline", "form=deep"], ["form", "'deep'", "wide, narrow"]),
        (["gemm-core", "side=0"], ["side", "found '0'", "2 to 64"]),
        (["gemm-core", "configurable=true", "width=7"], ["width", "found 7", "an even number of bits"]),
        (["reduce-unit", "lanes=3"], ["lanes", "found 3", "a power of two"]),
        (["learner-pipeline", "lanes=9"], ["lanes", "found 9", "1 to 8"]),
    ],
)
def test_rtl_refuses_wrong_parameters(
    placerl: Placerl, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    pytest.importorskip("amaranth")
    refused(placerl("rtl", *arguments, "-o", str(tmp_path / "out")), *words)
    assert not (tmp_path / "out").exists()
