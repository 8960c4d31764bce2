"""Comparisons of systems whose speed is known, and of systems that fail."""

import contextlib
import io
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from placerl.harness import workloads
from placerl.harness.cli import compare_command
from placerl.harness.cli.bench import training_bench
from placerl.harness.compare import equal_steps, registry
from placerl.harness.compare import rounds as compare
from placerl.harness.compare.equal_steps import StepExtent
from placerl.harness.compare.parts import FLUSHED, ONE_THREAD, OurSide, judged_parts
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure, WorkerJob, WorkerResult
from placerl.harness.compare.system import System
from placerl.harness.core.progress import silent
from placerl.harness.mapping import Mapping
from placerl.harness.measure import statistics
from tests.harness.compare import nasty_worker
from tests.harness.old_form import details_of

FAKE = Path(__file__).with_name("nasty_worker.py")
MAPPING = Mapping.parse("torch-native-cpu")
MANY = "1000000"
ONE_OUTPUT = threading.Lock()  # both sides train at the same time, and a process has one standard output


class Here:
    """A `nasty_worker` in this process, of those that only answer."""

    def __init__(self, what, arguments):
        self.what, self.arguments, self.jobs = what, arguments, 0

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def ask(self, job, limit_s):
        number, self.jobs = self.jobs, self.jobs + 1
        with ONE_OUTPUT, contextlib.redirect_stdout(io.StringIO()) as said:
            nasty_worker.act(self.what, self.arguments, number, job.model_dump())
        return WorkerResult.model_validate_json(said.getvalue())

    def hang_up(self): ...

    def close(self): ...

    def abort(self): ...


@pytest.fixture
def systems(monkeypatch):
    """Fake systems by name, a command line of `nasty_worker` each; a string is a build that fails so.

    Those that only answer are no processes.
    """
    commands = {}

    def start(name, cpus=None):
        what, *arguments = commands[name]
        if what in nasty_worker.ANSWERS and not (what == "rate" and arguments[1] != MANY):
            return Here(what, arguments)
        return Worker([sys.executable, str(FAKE), what, *arguments], cpus=cpus)

    def build(names):
        failures = {name: commands[name] for name in names if isinstance(commands[name], str)}
        return {
            name: WorkerFailure(FailureKind.ENVIRONMENT, failures[name], ["no such version"])
            if name in failures
            else None
            for name in names
        }

    monkeypatch.setattr(registry, "own_worker", lambda mapping, **_: start("placerl"))
    monkeypatch.setattr(registry, "baseline_worker", start)
    monkeypatch.setattr(registry, "build_baselines", build)
    return commands


def compared(baselines, rounds=15, name="cartpole-dqn", progress=silent, mapping=MAPPING, **given):
    settings = compare.ComparisonSettings(rounds=rounds, **given)
    rows = compare.compare(
        workloads.load(name), mapping, baselines, budget_s=0, progress=progress, settings=settings
    )
    assert {row.suite for row in rows} <= {"compare"}
    return {(row.baseline, row.who, row.quantity): row for row in rows}


@pytest.mark.parametrize(("ours", "verdict"), [(3000, "faster"), (300, "slower"), (1000, "no verdict")])
def test_a_known_ratio_is_found(systems, ours, verdict):
    systems |= {"placerl": ["rate", str(ours), MANY], "slow": ["rate", "1000", MANY]}
    rows = compared(["slow"])
    ratio = rows["slow", "placerl", "throughput_ratio"]
    assert ratio.value == pytest.approx(ours / 1000, rel=0.05)
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.verdict == verdict.replace("faster", "faster; returns not compared")
    assert ratio.returns == "returns not compared: not asked for"
    assert ratio.pairs == 15
    null = rows["slow", "placerl", "null_ratio"]
    assert null.value == pytest.approx(1, rel=0.05)
    mine, theirs = (rows["slow", name, "gradient_steps_per_s"] for name in ("placerl", "slow"))
    assert mine.value == pytest.approx(ours, rel=0.1)
    assert theirs.value == pytest.approx(1000, rel=0.1)
    assert (len(mine.samples), len(theirs.samples)) == (30, 15)
    assert (mine.part, theirs.part) == ("ours", "theirs")
    assert theirs.versions == {"nasty": "1"}
    steps = rows["slow", "slow", "environment_steps_per_s"]
    assert steps.value == pytest.approx(2 * theirs.value)


def test_a_rate_with_a_wide_interval_is_too_noisy_and_the_verdict_stays(systems):
    systems |= {"placerl": ["rate", "9000", MANY], "uneven": ["uneven", "1000", "2", "1"]}
    rows = compared(["uneven"])
    ours, theirs = (rows["uneven", name, "gradient_steps_per_s"] for name in ("placerl", "uneven"))
    assert (ours.status, ours.reason) == ("ok", "")
    assert theirs.status == "too_noisy"
    assert "of the median, where 10% is the limit" in theirs.reason
    ratio = rows["uneven", "placerl", "throughput_ratio"]
    assert (ratio.status, ratio.verdict) == ("ok", "faster; returns not compared")


def test_a_rate_of_few_rounds_has_no_interval_and_is_too_noisy(systems):
    systems |= {"placerl": ["rate", "9000", MANY], "slow": ["rate", "1000", MANY]}
    theirs = compared(["slow"], rounds=4)["slow", "slow", "gradient_steps_per_s"]
    assert (theirs.status, theirs.low) == ("too_noisy", None)
    assert theirs.reason == "4 samples, where 5 are the fewest"


def test_what_neighbouring_rounds_share_widens_the_interval_of_a_rate(systems):
    systems |= {"placerl": ["rate", "9000", MANY], "uneven": ["uneven", "1000", "1.05", "4"]}
    theirs = compared(["uneven"], rounds=20)["uneven", "uneven", "gradient_steps_per_s"]
    assert (theirs.low, theirs.high) == statistics.interval(theirs.samples, in_order=True)
    assert (theirs.low, theirs.high) != statistics.interval(theirs.samples)


def test_the_samples_of_both_jobs_of_a_round_are_in_the_order_of_time(systems):
    systems |= {"placerl": ["slower"], "slow": ["rate", "1000", MANY]}
    ours = compared(["slow"], rounds=5)["slow", "placerl", "gradient_steps_per_s"]
    assert len(ours.samples) == 10
    assert list(ours.samples) == sorted(ours.samples, reverse=True)


@pytest.mark.parametrize(("one", "other", "status"), [("0.05", "0.059", "ok"), ("0.3", "0.6", "too_noisy")])
def test_a_small_part_of_the_time_need_not_be_known_exactly(systems, one, other, status):
    systems |= {"placerl": ["parts", one, other], "slow": ["rate", "1000", MANY]}
    rows = compare.compare(
        workloads.load("cartpole-dqn"), MAPPING, ["slow"], budget_s=0,
        settings=compare.ComparisonSettings(rounds=15),
    )  # fmt: skip
    (learner,) = (row for row in rows if row.part == "ours, learner, of the time")
    assert learner.status == status


@pytest.mark.parametrize(
    ("mapping", "device"),
    [
        ("native-native-cpu", "cpu"),
        ("opencl-native-cpu", "cpu"),
        ("native-cuda-cuda", "cpu"),
        ("torch:cuda-native-cpu", "cuda"),
        ("torch:cuda:1-cuda:1-cuda:1", "cuda:1"),
    ],
)
def test_the_networks_of_a_library_are_on_the_gpu_of_our_learner(systems, mapping, device):
    systems |= {"placerl": ["device"], "other": ["device"]}
    rows = compared(["other"], rounds=5, mapping=Mapping.parse(mapping))
    assert details_of(rows["other", "other", "gradient_steps_per_s"])["notes"] == {"device": device}
    assert {row.where for row in rows.values()} == {device}


RETURNS = StepExtent(4000, seeds=3, budget_s=100)


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(3, "faster"), (2, "faster"), (1, "faster, but learns less"), (0, "faster, but learns less")],
)
def test_faster_is_said_of_who_learns_no_less(systems, gain, verdict):
    systems |= {"placerl": ["rate", "3000", MANY, str(gain)], "slow": ["rate", "1000", MANY, "2"]}
    rows = compared(["slow"], returns=RETURNS)
    assert rows["slow", "placerl", "throughput_ratio"].verdict == verdict
    ours, theirs = (rows["slow", name, "return_at_equal_steps"] for name in ("placerl", "slow"))
    # The last two of ten jobs, the ninth and the tenth: one more each time.
    assert ours.value == pytest.approx(1 + 8.5 * gain)
    assert theirs.value == pytest.approx(1 + 8.5 * 2)
    assert ours.samples == (ours.value,) * 3
    assert details_of(ours)["environment_steps"] == details_of(theirs)["environment_steps"] == [4000] * 3
    assert details_of(ours)["seeds"] == details_of(theirs)["seeds"] == [0, 1, 2]
    difference = rows["slow", "placerl", "return_difference"]
    assert difference.value == pytest.approx(8.5 * (gain - 2))
    assert difference.low <= difference.value <= difference.high


def test_slower_stays_slower_whatever_is_learnt(systems):
    systems |= {"placerl": ["rate", "300", MANY, "9"], "fast": ["rate", "1000", MANY, "2"]}
    rows = compared(["fast"], returns=RETURNS)
    assert rows["fast", "placerl", "throughput_ratio"].verdict == "slower"
    assert rows["fast", "placerl", "return_difference"].value > 0


def test_where_nobody_learns_both_returns_are_told_and_not_compared(systems):
    systems |= {"placerl": ["rate", "3000", MANY], "slow": ["rate", "1000", MANY]}
    rows = compared(["slow"], returns=RETURNS)
    ratio = rows["slow", "placerl", "throughput_ratio"]
    assert ratio.verdict == "faster; returns not compared"
    assert "neither side had learnt anything" in ratio.returns
    assert rows["slow", "slow", "return_at_equal_steps"].value == 1
    assert ("slow", "placerl", "return_difference") not in rows


@pytest.mark.parametrize(
    ("ours", "theirs", "name"), [("still", "rate", "placerl"), ("rate", "still", "other")]
)
def test_a_side_without_environment_steps_keeps_its_speed(systems, ours, theirs, name):
    systems |= {"placerl": [ours, "3000", MANY], "other": [theirs, "1000", MANY]}
    ratio = compared(["other"], returns=RETURNS)["other", "placerl", "throughput_ratio"]
    assert ratio.status == "ok"
    assert ratio.returns == f"returns not compared: {name} took no environment steps in the timed rounds"


def test_ppo_is_judged_by_its_environment_steps(systems):
    """Where it stops early, its gradient steps are other work in each system."""
    systems |= {"placerl": ["collects", "3000", "1"], "other": ["collects", "1000", "4"]}
    rows = compared(["other"], name="cartpole-ppo")
    ratio, null = (rows["other", "placerl", f"{of}_ratio"] for of in ("throughput", "null"))
    assert ratio.value == pytest.approx(0.75, rel=0.05)
    assert ratio.verdict == "slower"
    assert ratio.rate == null.rate == "environment_steps_per_s"
    for part, name, rate in zip(judged_parts(ratio.rate), ("placerl", "other"), (3000, 4000), strict=True):
        row = rows["other", name, "environment_steps_per_s"]
        assert (row.part, row.value) == (part, pytest.approx(rate, rel=0.1))
    assert rows["other", "other", "gradient_steps_per_s"].value == pytest.approx(1000, rel=0.1)
    console = Console(width=160, file=io.StringIO())
    console.print(compare_command.side_by_side(list(rows.values())))
    (line,) = (line for line in console.file.getvalue().splitlines() if "other" in line)
    theirs, ours = (float(cell) for cell in line.split("│")[2:4])
    assert (theirs, ours) == (pytest.approx(4000, rel=0.1), pytest.approx(3000, rel=0.1))
    ratio = compared(["other"])["other", "placerl", "throughput_ratio"]
    assert ratio.value == pytest.approx(3, rel=0.05)
    assert "rate" not in details_of(ratio)
    assert judged_parts(ratio.rate) == judged_parts(None) == ("ours", "theirs")


def test_ppo_without_environment_steps_has_no_ratio(systems):
    systems |= {"placerl": ["collects", "3000", "1"], "other": ["still", "1000", MANY]}
    ratio = compared(["other"], name="cartpole-ppo")["other", "placerl", "throughput_ratio"]
    assert (ratio.status, ratio.reason) == ("not_run", "a job of a timed round took no environment steps")


def test_a_side_that_fails_while_it_learns_keeps_its_speed(systems, monkeypatch):
    systems |= {"placerl": ["rate", "3000", MANY, "2"], "fails": ["rate", "1000", MANY, "2"]}
    train = equal_steps.compare

    def fail(*arguments):
        systems["fails"] = ["crash"]
        return train(*arguments)

    monkeypatch.setattr(equal_steps, "compare", fail)
    ratio = compared(["fails"], returns=RETURNS)["fails", "placerl", "throughput_ratio"]
    assert ratio.value == pytest.approx(3, rel=0.05)
    assert ratio.verdict == "faster; returns not compared"
    assert ratio.returns.startswith("returns not compared: fails: crash: ")


def test_one_that_fails_stops_no_other(systems):
    systems |= {
        "placerl": ["rate", "2000", MANY],
        "crashes": ["rate", "1000", "6"],
        "never-starts": ["crash"],
        "not-built": "pip ended with 1",
        "works": ["rate", "1000", MANY],
    }
    rows = compared(["crashes", "never-starts", "not-built", "works"])
    assert rows["works", "placerl", "throughput_ratio"].value == pytest.approx(2, rel=0.05)
    for name, kind, said in (
        ("crashes", "crash", "RuntimeError: the network exploded"),
        ("never-starts", "crash", "RuntimeError: the network exploded"),
        ("not-built", "environment", "no such version"),
    ):
        row = rows[name, name, "gradient_steps_per_s"]
        assert (row.status, row.value, details_of(row)["kind"]) == ("failed", None, kind)
        assert row.last_lines[-1] == said
        assert name in row.reason
        assert (name, "placerl", "throughput_ratio") not in rows


def test_what_a_baseline_cannot_do_is_not_run_and_says_why(systems):
    systems |= {"placerl": ["hang"], "refuses": ["refuse"]}  # nobody waits for us where nobody compares
    rows = compared(["refuses"])
    assert len(rows) == 1
    row = rows["refuses", "refuses", "gradient_steps_per_s"]
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason.startswith("not run: refuses cannot do it: ")


@pytest.mark.parametrize(
    ("name", "stand_in", "gone"),
    [
        ("cartpole-ppo", "ppo2_style", {"openai-baselines"}),
        ("cartpole-ppo", "spinningup_style", {"spinningup"}),
        ("cartpole-dqn", "sb3", set()),
    ],
)
def test_systems_that_no_longer_install_are_named_beside_their_stand_in(systems, name, stand_in, gone):
    systems |= {"placerl": ["rate", "2000", MANY], stand_in: ["rate", "1000", MANY]}
    rows = compared([stand_in], name=name, mapping=Mapping.parse("torch:cuda-native-cpu"))
    missing = {key[0]: row for key, row in rows.items() if row.status == "not_run"}
    assert set(missing) == gone
    assert all(f"{stand_in} stands in" in row.reason for row in missing.values())
    assert {row.where for row in rows.values()} == {"cuda"}


def test_replays_alone_are_compared_with_our_replay(systems, monkeypatch):
    systems |= {
        "ours-alone": ["cycles", "2000"],
        "replay": ["cycles", "1000"],
        "trains": ["rate", "1000", MANY],
    }
    monkeypatch.setattr(registry, "replay_alone", lambda name: name == "replay")
    monkeypatch.setattr(registry, "own_replay_worker", lambda cpus: registry.baseline_worker("ours-alone"))
    rows = compared(["replay"], returns=RETURNS)
    ratio = rows["replay, replay alone", "placerl", "throughput_ratio"]
    assert ratio.value == pytest.approx(2, rel=0.05)
    assert ratio.returns == "returns not compared: a replay alone trains nothing"
    assert {row.primitive for row in rows.values()} == {"replay"}
    assert set(compared(["replay"], asked=True, ours=OurSide(envpool=True))) == set(rows)
    theirs = {quantity: row.value for (_, backend, quantity), row in rows.items() if backend == "replay"}
    assert theirs["replay_cycles_per_s"] == pytest.approx(1000)
    # Half the time is insertions, two a cycle, and a quarter each the others.
    assert theirs["inserts_per_s"] == pytest.approx(4000)
    assert theirs["samples_per_s"] == theirs["updates_per_s"] == pytest.approx(4000)
    with pytest.raises(ValueError, match="replays alone"):
        compared(["replay", "trains"])


@pytest.mark.parametrize("terms", ['{"sample": 0.0}', '{"compact": 1.0, "sample": 0.0}', "{}"])
def test_a_call_of_a_replay_that_took_no_time_has_no_rate(systems, monkeypatch, terms):
    systems |= {"ours-alone": ["cycles", "2000"], "replay": ["terms", terms]}
    monkeypatch.setattr(registry, "replay_alone", lambda name: name == "replay")
    monkeypatch.setattr(registry, "own_replay_worker", lambda cpus: registry.baseline_worker("ours-alone"))
    rows = compared(["replay"])
    assert rows["replay, replay alone", "placerl", "throughput_ratio"].status == "ok"
    assert {quantity for _, backend, quantity in rows if backend == "replay"} == {
        "replay_cycles_per_s", "environment_steps_per_s", "episode_return",
    }  # fmt: skip


def test_a_part_that_some_jobs_do_not_report_took_no_time_in_them(systems):
    systems |= {"placerl": ["rate", "3000", MANY], "other": ["terms", '{"learner": 0.5}', "{}"]}
    share = compared(["other"])["other", "other", "fraction_of_time"]
    assert 0.0 in share.samples
    assert max(share.samples) > 0


def test_learner_and_replay_alone_are_told_apart_from_training(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "slow": ["rate", "1000", MANY]}
    rows = compared(["slow"], environment=False, returns=RETURNS)
    ratio = rows["slow, learner and replay alone", "placerl", "throughput_ratio"]
    assert ratio.value == pytest.approx(2, rel=0.05)
    assert {row.primitive for row in rows.values()} == {"learner and replay"}
    assert not any(quantity == "environment_steps_per_s" for _, _, quantity in rows)
    assert ratio.verdict == "faster; returns not compared"
    assert "take no environment steps" in ratio.returns


def test_environments_of_envpool_are_no_secret(systems, monkeypatch):
    systems |= {"placerl": ["rate", "2000", MANY], "slow": ["rate", "1000", MANY]}
    own, asked = registry.own_worker, []
    monkeypatch.setattr(
        registry, "own_worker", lambda mapping, **options: (asked.append(options), own(mapping))[1]
    )
    rows = compared(["slow"], ours=OurSide(envpool=True))
    assert {baseline for baseline, _, _ in rows} == {"slow, this project with EnvPool"}
    flags = asdict(OurSide(envpool=True))
    assert asked == [flags | {"cpus": None}]


def test_a_mapping_that_someone_named_is_no_headline(systems):
    """Verdicts and headlines are of the baseline's plain name, with the mapping that the predictions choose."""
    systems |= {"placerl": ["rate", "2000", MANY], "slow": ["rate", "1000", MANY]}
    rows = compared(["slow"], asked=True)
    assert {baseline for baseline, _, _ in rows} == {f"slow, this project with {MAPPING}"}
    assert {backend for _, backend, _ in rows} == {"placerl", "slow"}


def test_a_baseline_that_flushes_is_a_side_of_its_own(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "slow": ["flushable", "500", "1000"]}
    rows = compared(["slow"], flushed=["slow"], returns=RETURNS)
    flushed = "slow" + FLUSHED
    assert rows["slow", "slow", "gradient_steps_per_s"].value == pytest.approx(500, rel=0.01)
    assert rows[flushed, flushed, "gradient_steps_per_s"].value == pytest.approx(1000, rel=0.01)
    assert rows[flushed, "placerl", "throughput_ratio"].value == pytest.approx(2, rel=0.1)
    assert rows["slow", "placerl", "throughput_ratio"].value == pytest.approx(4, rel=0.1)
    assert "does not flush" in rows[flushed, "placerl", "throughput_ratio"].returns
    systems["slow"] = "cannot be built"
    assert {row.reason for row in compared(["slow"], flushed=["slow"]).values()} == {
        "slow: environment: cannot be built",
        f"{flushed}: environment: cannot be built",
    }


def test_a_baseline_with_one_thread_is_a_side_of_its_own(systems):
    """It learns what it learns with more threads, so that both have the same returns."""
    systems |= {"placerl": ["rate", "2000", MANY, "1"], "slow": ["threaded", "1000", "500"]}
    rows = compared(["slow"], threads=2, single_threaded=["slow"], returns=RETURNS)
    alone = "slow" + ONE_THREAD
    for name, rate in (("slow", 500), (alone, 1000)):
        assert rows[name, name, "gradient_steps_per_s"].value == pytest.approx(rate, rel=0.01)
        ratio = rows[name, "placerl", "throughput_ratio"]
        assert ratio.value == pytest.approx(2000 / rate, rel=0.1)
        assert ratio.verdict == "faster"
        assert ratio.returns == rows["slow", "placerl", "throughput_ratio"].returns
    systems["slow"] = "cannot be built"
    assert {row.reason for row in compared(["slow"], single_threaded=["slow"]).values()} == {
        "slow: environment: cannot be built",
        f"{alone}: environment: cannot be built",
    }


@pytest.mark.parametrize(("wall_s", "limit_s"), [(0.01, 30), (10.0, 200), (100.0, 600)])
def test_a_job_may_take_many_times_what_the_last_one_took(wall_s, limit_s):
    """An iteration of PPO takes its time, however few gradient steps a job asks for."""
    limits_s = []

    class Recorder:
        def ask(self, job, limit_s):
            limits_s.append(limit_s)
            steps = max(320, job.gradient_steps)
            return WorkerResult(
                gradient_steps=steps,
                environment_steps=2048,
                wall_s=wall_s * steps / 320,
                episode_returns=[],
                versions={},
            )

    asked = WorkerJob(workload={}, batch_size=1, seed=0, gradient_steps=20)
    system = System("slow", Recorder, asked)
    compare._warm_up([system], lambda what: None)
    system.ask_timed()
    assert limits_s == [600, limit_s, limit_s]


def test_the_table_has_a_line_for_each_baseline(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "slow": ["rate", "1000", MANY], "refuses": ["refuse"]}
    rows = [row for names in (["slow"], ["refuses"]) for row in compared(names).values()]
    console = Console(width=160, file=io.StringIO())
    console.print(compare_command.side_by_side(rows))
    slow, refuses = (
        next(line for line in console.file.getvalue().splitlines() if name in line)
        for name in ("slow", "refuses")
    )
    assert "faster" in slow
    assert "refuses cannot do it: sac is not supported" in refuses
    assert compare_command.departures(rows) == []


def test_this_project_may_fail_too(systems):
    systems |= {"placerl": ["crash"], "works": ["rate", "1000", MANY]}
    rows = compared(["works"])
    assert rows["works", "placerl", "gradient_steps_per_s"].status == "failed"
    assert len(rows) == 1


def test_too_few_rounds_give_no_ratio(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "works": ["rate", "1000", MANY]}
    ratio = compared(["works"], rounds=6)["works", "placerl", "throughput_ratio"]
    assert (ratio.status, ratio.value) == ("not_run", None)
    assert "6 pairs" in ratio.reason


def test_the_table_says_why_there_is_no_ratio_and_not_that_a_rate_is_noisy(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "uneven": ["uneven", "1000", "2", "1"]}
    rows = list(compared(["uneven"], rounds=6).values())
    assert any(row.status == "too_noisy" for row in rows)
    console = Console(width=200, file=io.StringIO())
    console.print(compare_command.side_by_side(rows))
    assert "6 pairs, where 15 are the fewest" in console.file.getvalue()
    (line,) = training_bench.lines(rows, 32)[1:]
    assert line[-1] == "6 pairs, where 15 are the fewest"


def test_progress_stays_within_the_budget(systems):
    systems |= {"placerl": ["rate", "2000", MANY], "works": ["rate", "1000", MANY]}
    seen = []
    compared(["works"], progress=lambda done, total, what: seen.append((done, total)))
    assert seen
    assert all(0 <= done <= total for done, total in seen)


def test_an_interrupt_ends_every_worker(systems):
    enough = "1000"  # jobs before it crashes: it is a process
    systems |= {"placerl": ["rate", "2000", enough], "works": ["rate", "1000", enough]}
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    seen = []

    def interrupt(done, total, what):
        seen.append(what)
        if what == "round 3":
            assert len(psutil.Process().children(recursive=True)) > len(before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(["works"], progress=interrupt)
    assert seen[-1] == "round 3"
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_every_system_is_confined_to_the_given_processors(systems, monkeypatch):
    systems |= {"placerl": ["rate", "3000", MANY], "slow": ["rate", "1000", MANY]}
    asked = []
    starts = {name: getattr(registry, name) for name in ("own_worker", "baseline_worker")}
    for name, start in starts.items():
        monkeypatch.setattr(
            registry, name, lambda *names, start=start, **given: asked.append(given["cpus"]) or start(*names)
        )
    processors = psutil.Process().cpu_affinity()[:1]
    rows = compared(["slow"], rounds=5, cpus=processors)
    assert asked == [processors, processors]
    assert ("slow, on 1 core", "placerl", "throughput_ratio") in rows
