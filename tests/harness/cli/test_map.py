"""`placerl map` and `placerl profile`: workloads, platforms, and what is measured once."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.mapping import DEFAULT_STRATEGY, STRATEGIES
from placerl.harness.mapping.answer import MappingAnswer
from placerl.harness.measure.timed_case import Timing
from placerl.harness.plan.choosing import choose_mapping
from placerl.harness.platforms.available_memory import NotEnoughMemory
from tests.harness.cli.command_line import Placerl, refused
from tests.harness.validate.achieved import unmoved


def test_an_unknown_workload_is_refused_with_the_known_ones(placerl: Placerl, tmp_path: Path) -> None:
    results = tmp_path / "results"
    refused(placerl("map", "hoper-ddpg", "--results", str(results)), "hoper-ddpg", "hopper-ddpg")
    assert not results.exists()


@pytest.mark.parametrize("command", ["map", "profile"])
def test_too_little_memory_is_one_line_and_no_traceback(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise NotEnoughMemory("needs 4 GB")

    monkeypatch.setattr("placerl.harness.profile.measured.measure.measure", full)
    outcome = placerl(command, "cartpole-dqn", "--results", str(tmp_path))
    assert outcome.status == 1
    assert outcome.err.strip().splitlines()[-1] == "placerl: not run: needs 4 GB"
    assert "Traceback" not in outcome.err


def test_a_backend_that_fails_is_an_exit_status(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(cases: list[Any], protocol: object, progress: object) -> dict[str, Timing]:
        names = [case.name for case in cases]
        return {name: Timing(name, "failed", "check: wrong") for name in names}

    monkeypatch.setattr("placerl.harness.profile.measured.measure.measure", measured)
    assert placerl("profile", "cartpole-dqn", "--results", str(tmp_path)).status == 1


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
    text = Path(workloads.__file__).with_name("cartpole-dqn.toml").read_text()
    assert old in text
    path, results = tmp_path / "broken.toml", tmp_path / "results"
    path.write_text(text.replace(old, new, 1))
    refused(placerl("profile", str(path), "--results", str(results)), "broken.toml", *words)
    assert not results.exists()


def test_a_platform_that_is_unknown_or_lacks_a_number_is_refused_with_the_field(
    placerl: Placerl, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    outcome = placerl("map", "pong-dqn", "--platform", "abacus", "--results", str(results))
    refused(outcome, "abacus", "map-tpds23")
    assert "fixar21" not in outcome.err, "which the help does not offer either"
    outcome = placerl("map", "cartpole-ddpg", "--platform", "pearl24-discrete", "--results", str(results))
    refused(outcome, "pearl24-discrete", "device 'cpu'.peak_tops")
    path = tmp_path / "unlinked.toml"
    text = (Path(workloads.__file__).parents[1] / "platforms" / "pal21.toml").read_text()
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
    assert "composed-loop was 4.1 times too fast in the median of 63 trainings" in " ".join(
        outcome.out.split()
    )
    assert re.search(r"pearl24 chooses \S+ with streams = 1", outcome.out)
    assert not re.search(r"│ measured\s", outcome.out), "no time was taken here"
    assert not results.exists()


def test_map_measures_once_and_answers_from_the_store_afterwards(placerl: Placerl, tmp_path: Path) -> None:
    arguments = ("map", "cartpole-dqn", "--batch-size", "32", "--results", str(tmp_path), "--json")
    first, second = placerl(*arguments), placerl(*arguments)
    assert first.status == second.status == 0
    assert json.loads(first.out) == json.loads(second.out)
    chosen = [row for row in json.loads(first.out) if row.get("chosen")]
    # PAL gives each core to actors or to learners.
    lacking = {"pal21"} if len(os.sched_getaffinity(0)) < 2 else set()
    assert {row["strategy"] for row in chosen} == set(STRATEGIES) - lacking
    assert all(row["provenance"] == "modelled" and row["value"] > 0 for row in chosen)
    same_in_python(
        json.loads(first.out), choose_mapping("cartpole-dqn", batch_size=32, results=str(tmp_path))
    )


def same_in_python(rows: list[dict[str, Any]], choice: MappingAnswer) -> None:
    """The choice of `placerl.map` is that of the command's rows: mapping, rate, interval and runner-up."""
    found = [row for row in rows if row["suite"] == "prediction" and row["value"]]
    strategies = {row["strategy"] for row in found if row["chosen"]}
    assert choice.strategy == (DEFAULT_STRATEGY if DEFAULT_STRATEGY in strategies else found[0]["strategy"])
    own = sorted(
        (row for row in found if row["strategy"] == choice.strategy),
        key=lambda row: (not row["chosen"], -row["value"]),
    )
    best, second, *_ = own
    for rate, row in ((choice, best), (choice.runner_up, second)):
        assert rate is not None
        assert (rate.mapping, rate.gps) == (row["mapping"], row["value"])
        assert (rate.low_gps, rate.high_gps) == (row["low"], row["high"])


@pytest.mark.parametrize("workload", ["cartpole-ddpg", "cartpole-dqn"])
def test_the_answer_for_another_platform_is_the_same_in_python(
    placerl: Placerl, tmp_path: Path, workload: str
) -> None:
    asked = (workload, "--batch-size", "32", "--platform", "map-tpds23")
    choice = choose_mapping(workload, batch_size=32, platform="map-tpds23", results=tmp_path / "results")
    same_in_python(json.loads(placerl("map", *asked, "--json").out), choice)
    shown = " ".join(placerl("map", *asked).out.split())
    assert choice.lines
    assert all(line in shown for line in choice.lines)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("command", ["profile", "map", "validate"])
def test_an_unknown_precision_is_refused_with_the_one_that_was_meant(
    placerl: Placerl, tmp_path: Path, command: str
) -> None:
    results = tmp_path / "results"
    workload = () if command == "validate" else ("cartpole-dqn",)
    outcome = placerl(command, *workload, "--precision", "fixd32", "--results", str(results))
    refused(outcome, "--precision: found fixd32; allowed: float32, fixed32", "did you mean fixed32?")
    assert not results.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--device", "fpga:u200"), "float32 with --device"),
        (("--platform", "map-tpds23"), "float32 with another"),
    ],
)
def test_what_is_not_timed_here_computes_in_float32(
    placerl: Placerl, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    results = tmp_path / "results"
    outcome = placerl("map", "cartpole-dqn", "--precision", "fixed32", *options, "--results", str(results))
    refused(outcome, f"--precision: found fixed32; allowed: {words}")
    assert not results.exists()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Time nothing: every case, and each of its parts, takes a millisecond. The numbers of cases asked for."""
    rounds: list[int] = []

    def measured(cases: list[Any], protocol: object, progress: object) -> dict[str, Timing]:
        rounds.append(len(cases))
        parts = ("", *(f": {part}" for part in ("collect", "insert", "sample", "learn", "update")))
        parts = (*parts, ": runtime", ": steps")
        names = [f"{case.name}{part}" for case in cases for part in parts]
        return {name: Timing(name, "ok", "", unmoved(1e-3), 1e-3, 1e-3, 1e-3, 1, (0,)) for name in names}

    monkeypatch.setattr("placerl.harness.profile.measured.measure.measure", measured)
    return rounds


def test_a_workload_file_that_changed_is_measured_again(
    placerl: Placerl, tmp_path: Path, rounds: list[int]
) -> None:
    text = Path(workloads.__file__).with_name("cartpole-dqn.toml").read_text()
    path, names = tmp_path / "mine.toml", set()
    for measured, capacity in enumerate((4000, 5000), start=1):
        path.write_text(re.sub(r"(?m)^capacity = .*$", f"capacity = {capacity}", text))
        outcome = placerl("map", str(path), "--results", str(tmp_path / "results"), "--json")
        assert outcome.status == 0
        assert len(rounds) == measured
        names |= {row["workload"] for row in json.loads(outcome.out)}
    assert len(names) == 2


def test_precisions_are_profiled_and_mapped_where_asked_for_and_stored_apart(
    placerl: Placerl, tmp_path: Path, rounds: list[int]
) -> None:
    common = ("cartpole-dqn", "--batch-size", "32", "--results", str(tmp_path))
    asked = ("--precision", "dynamic", "--precision", "float32", "--precision", "fixed32")
    floats = json.loads(placerl("profile", *common, "--json").out)
    fixed = json.loads(placerl("profile", *common, *asked, "--json").out)
    assert {row["suite"] for row in floats} == {"profile"}
    assert {row["suite"] for row in fixed} == {"precision_profile"}
    kinds = {row["backend"] for row in fixed} - {row["backend"] for row in floats}
    assert kinds >= {"native[fixed32]", "native[dynamic]", "torch[fixed32]"}
    assert not any("fixed16" in kind for kind in kinds)
    mapped = json.loads(placerl("map", *common, *asked, "--json").out)
    assert len(rounds) == 2, "the profile answers from the store"
    assert {row["suite"] for row in mapped} == {"precision_prediction"}
    assert {"native[fixed32]-native-cpu", "native[dynamic]-native-cpu"} <= {row["mapping"] for row in mapped}
    few = json.loads(placerl("map", *common, "--json").out)
    assert {row["suite"] for row in few} == {"prediction"}
    assert not any("[" in row["mapping"] for row in few)
    shown = placerl("map", *common, *asked).out
    assert "native[fixed32]-native-cpu" in shown
    assert json.loads(placerl("profile", *common, "--json").out) == floats


def test_a_gpu_of_another_machine_joins_the_choice_and_is_not_stored(
    placerl: Placerl, tmp_path: Path, rounds: list[int]
) -> None:
    asked = ("map", "cartpole-dqn", "--batch-size", "32", "--results", str(tmp_path))
    rows = json.loads(placerl(*asked, "--device", "h200", "--json").out)
    lent = [row for row in rows if row["quantity"] == "time_per_call"]
    assert {row["provenance"] for row in lent} == {"measured"}
    assert all("NVIDIA H200" in row["notes"]["machine"] for row in rows), "wherever it is shown"
    mappings = {row["mapping"] for row in rows if row not in lent}
    assert {"native-native-cpu", "torch:cuda:h200-native-cpu", "fpga:u200-fpga:u200-cpu"} <= mappings
    shown = placerl(*asked, "--device", "h200").out
    assert "cuda:h200 is NVIDIA H200 next to 16 cores of Intel(R) Xeon(R) Processor" in " ".join(
        shown.split()
    )
    same_in_python(rows, choose_mapping("cartpole-dqn", batch_size=32, device="h200", results=tmp_path))
    assert "h200" not in placerl(*asked, "--json").out
    assert len(rounds) == 1, "this machine's times are in the store"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("hopper-ddpg", "--device", "h900"),
            "--device: found 'h900'; allowed: fpga:u200, fpga:u50, h100, h200",
        ),
        (
            ("hopper-ddpg", "--device", "h200", "--batch-size", "64"),
            "--batch-size: found 64; allowed: what h200 was",
        ),
        (("pong-dqn", "--device", "h200"), "workload: found pong-dqn; allowed: what h200 was measured with"),
        (
            ("hopper-ddpg", "--device", "h200", "--platform", "pal21"),
            "--device: found h200; allowed: none with",
        ),
        (
            ("--device", "fpga:u200"),
            "WORKLOAD: found nothing; allowed: a workload, or none with --device h100 or h200",
        ),
        (
            ("--device", "h200", "--batch-size", "32"),
            "--batch-size: found 32; allowed: none without a workload",
        ),
        (
            ("--device", "h200", "--platform", "pal21"),
            "--platform: found pal21; allowed: none without a workload",
        ),
    ],
)
def test_what_another_machine_did_not_measure_is_refused(
    placerl: Placerl, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    results = tmp_path / "results"
    refused(placerl("map", *arguments, "--results", str(results)), words)
    assert not results.exists()


def test_without_a_workload_everything_that_was_measured_on_a_gpu_is_judged(
    placerl: Placerl, tmp_path: Path, rounds: list[int]
) -> None:
    outcome = placerl("map", "--device", "h200", "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    said = " ".join(outcome.out.split())
    cells = len(rounds)
    assert cells >= 5
    assert f"cpu, cuda:h200, fpga:u200, by map-tpds23, {cells} cells: best fpga:u200-fpga:u200-cpu (" in said
    assert f"cpu, cuda:h200, by pearl24, {cells} cells: best torch:cuda:h200-" in said
    judged = json.loads(placerl("map", "--device", "h200", "--results", str(tmp_path), "--json").out)
    assert len(judged) == 4 * cells, "two sets of devices, two models"
    assert all("NVIDIA H200" in cell["machine"] for cell in judged)


def test_a_change_of_a_platform_is_shown_next_to_it_and_to_another_one(
    placerl: Placerl, tmp_path: Path
) -> None:
    asked = ("map", "hopper-ddpg", "--platform", "map-tpds23", "--results", str(tmp_path / "results"))
    change = ("--set", "device.gpu.launch_us=90")
    outcome = placerl(*asked, *change, "--against", "ppoaccel")
    assert outcome.status == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert re.search(
        r"With device\.gpu\.launch_us=[\d.]+, 0\.\d+ times as large, it would be torch:cuda-", said
    )
    pattern = r"map-tpds23 with device\.gpu\.launch_us=90: composed-loop chooses fpga-fpga-fpga: .*, 1 times the first"
    assert re.search(pattern, said)
    assert re.search(
        r"map-tpds23: composed-loop chooses torch:cuda-fpga-cpu: 1,114\.2 gradient steps/s, \d\.\d+ ", said
    )
    assert "ppoaccel: composed-loop chooses" in said
    found = json.loads(placerl(*asked, *change, "--json").out)
    rates = [row["value"] for row in found if row.get("strategy") == "map-tpds23" and row["chosen"]]
    assert len(rates) == 2
    assert rates[1] > rates[0]
    refused(placerl("map", "--device", "h200", *change), "--set: found", "allowed: none without a workload")
    refused(
        placerl("map", "--device", "h200", "--all"), "--all: found True; allowed: none without a workload"
    )


def test_a_change_of_this_machine_is_predicted_from_its_times_and_not_stored(
    placerl: Placerl, tmp_path: Path, rounds: list[int]
) -> None:
    asked = ("map", "cartpole-dqn", "--batch-size", "32", "--results", str(tmp_path))
    refused(
        placerl(*asked, "--set", "device.cpu.last_level_cache_mb=3"),
        "this-machine: --set: found device.cpu.last_level_cache_mb; allowed: device.cpu.cores, ",
    )
    assert not rounds, "nothing was measured"
    before = placerl(*asked, "--json").out
    board = ("--device", "fpga:u200")
    slow = ("--set", "link.cpu-fpga:u200.latency_us=1e6")
    rows = json.loads(placerl(*asked, *board, *slow, "--json").out)  # with the change, then as it is
    rates = [
        row["value"]
        for row in rows
        if (row.get("strategy"), row["mapping"]) == ("pearl24", "fpga:u200-fpga:u200-cpu")
    ]
    assert len(rates) == 2
    assert rates[1] > 1 > rates[0]
    said = placerl(*asked, *board, *slow).out
    assert "this-machine with link.cpu-fpga:u200.latency_us=1e6: composed-loop chooses native-" in " ".join(
        said.split()
    )
    assert placerl(*asked, "--json").out == before
    changed = choose_mapping("cartpole-dqn", batch_size=32, results=tmp_path, changes=["device.cpu.cores=64"])
    assert changed.mapping
    assert len(rounds) == 1
