"""Other libraries with both replays: interleaved rounds, rows for every outcome, and the claim that reads them."""

from pathlib import Path

import pytest

from placerl.harness.cli.bench.adapters_bench import table
from placerl.harness.compare import adapters
from placerl.harness.compare.adapters import GAIN, NULL, PAIRS, THROUGHPUT, Pair, _absent, _rows, measure
from placerl.harness.compare.protocol import FailureKind, Worker, WorkerFailure
from placerl.harness.papers import Finding, Outcome, claims
from placerl.harness.store.rows import AdapterResult
from placerl.harness.store.store import Store

COLUMNS = {"version": "library 1", "note": "", "own_is_prioritised": True}


class Library:
    """A worker of a library whose gradient steps take `step_s` seconds."""

    def __init__(self, step_s: dict[str, float]) -> None:
        self.step_s = step_s
        self.jobs: list[dict[str, object]] = []
        self.closed = False

    def ask_json(self, job: dict[str, object], limit_s: float) -> dict[str, object]:
        self.jobs.append(job)
        if "algorithm" in job:
            self.replay = str(job["replay"])
            return {"version": "library 1", "note": "as it is"}
        steps = int(str(job["environment_steps"]))
        return {"gradient_steps": steps, "wall_s": steps * self.step_s[self.replay]}

    def close(self) -> None:
        self.closed = True


def test_all_rows_of_a_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = [Library({"own": 0.02, "ours": 0.01}) for _ in range(2)]
    libraries = iter(made)
    monkeypatch.setattr(adapters, "start", lambda *_: next(libraries))
    rows = measure(Pair("tianshou", "dqn"), 20, 0.0, tmp_path, lambda *_: None)
    by_name = {(row.quantity, row.replay): row for row in rows}
    assert by_name[THROUGHPUT, "own"].value == pytest.approx(50)
    assert by_name[THROUGHPUT, "ours"].value == pytest.approx(100)
    assert by_name[GAIN, None].value == pytest.approx(2)
    assert by_name[GAIN, None].verdict == "faster"
    assert by_name[GAIN, None].pairs == 15  # the budget holds no more than the fewest
    assert by_name[NULL, None].value == pytest.approx(1)
    own, ours = made
    assert own.closed
    assert ours.closed
    # both do jobs of the slower side's length, ours two a round
    assert {job["environment_steps"] for job in own.jobs[3:]} == {20}
    assert len(ours.jobs) - 3 == 2 * (len(own.jobs) - 3) == 30


def test_a_library_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def start(*_: object) -> Worker:
        raise WorkerFailure(FailureKind.ENVIRONMENT, "no network")

    monkeypatch.setattr(adapters, "start", start)
    (row,) = measure(Pair("rllib", "sac"), 15, 0.0, tmp_path, lambda *_: None)
    assert row.status == "failed"
    assert "no network" in row.reason
    (missing,) = [pair for pair in PAIRS if pair.missing]
    (row,) = measure(missing, 15, 0.0, tmp_path, lambda *_: None)
    assert row.status == "not_run"
    assert "| pfrl ddpg | not run: PFRL's agents" in table([row])


def test_a_library_that_takes_no_gradient_step_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Idle(Library):
        def ask_json(self, job: dict[str, object], limit_s: float) -> dict[str, object]:
            answer = super().ask_json(job, limit_s)
            return answer | ({"gradient_steps": 0} if "gradient_steps" in answer else {})

    made = [Idle({"own": 0.02, "ours": 0.01}) for _ in range(2)]
    libraries = iter(made)
    monkeypatch.setattr(adapters, "start", lambda *_: next(libraries))
    (row,) = measure(Pair("tianshou", "dqn"), 20, 0.0, tmp_path, lambda *_: None)
    assert (row.status, row.reason) == ("failed", "invalid: took no gradient steps in 20 environment steps")
    assert all(library.closed for library in made)


def test_no_fewer_rounds_are_run_than_a_verdict_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(adapters, "start", lambda *_: Library({"own": 0.02, "ours": 0.01}))
    rows = measure(Pair("tianshou", "dqn"), 10, 0.0, tmp_path, lambda *_: None)
    assert {row.pairs for row in rows if row.quantity == GAIN} == {15}


def rows_of(
    library: str, ours_s: float, own_s: float = 0.02, algorithm: str = "dqn", **columns: object
) -> list[AdapterResult]:
    times_s = {
        name: [time_s * (1 + 0.01 * (7 * i % 30) / 30) for i in range(30)]
        for name, time_s in (("own", own_s), ("ours", ours_s), ("again", ours_s))
    }
    return _rows(Pair(library, algorithm), COLUMNS | columns, times_s)


def plugged_in(folder: Path, rows: list[AdapterResult]) -> Finding:
    (claim,) = (claim for claim in claims() if claim.key == "PAL-F11")
    with Store.open(folder / "store.sqlite") as store:
        store.begin_run("quick", "revision", {"fingerprint": "test-machine"}).finish("adapters", rows)
        return claim.evaluate(store.frame()).finding


def everywhere(last_s: float = 0.01) -> dict[str, list[AdapterResult]]:
    """Rows of each pair that counts, twice as fast with this project's replay, and of the last one by another time."""
    pairs = [pair for pair in PAIRS if not pair.missing and pair.library != "sb3"]
    return {
        pair.name: rows_of(pair.library, last_s if pair is pairs[-1] else 0.01, algorithm=pair.algorithm)
        for pair in pairs
    }


@pytest.mark.parametrize(
    ("last_s", "outcome"),
    [
        (0.01, Outcome.IN_KIND),  # without rlpyt, which no longer installs
        (0.019, Outcome.IN_KIND),
        (0.004, Outcome.IN_KIND),  # 5 times as fast, where PAL gains 2.1 times at most
        (0.03, Outcome.NOT_REPRODUCED),
        (0.02, Outcome.NO_VERDICT),
    ],
)
def test_the_verdict_on_the_plugged_in_replay(last_s: float, outcome: Outcome, tmp_path: Path) -> None:
    found = plugged_in(tmp_path, [row for rows in everywhere(last_s).values() for row in rows])
    assert found.outcome is outcome
    assert [n.value for n in found.ours] == pytest.approx([*[2.0] * 5, 0.02 / last_s])
    assert found.explanation.endswith("Not measured: sb3 dqn, sb3 ddpg."), "they do not count"


@pytest.mark.parametrize("missing", everywhere())
def test_the_replay_has_to_be_faster_in_every_library(missing: str, tmp_path: Path) -> None:
    made = everywhere()
    del made[missing]
    found = plugged_in(tmp_path / "a", [row for rows in made.values() for row in rows])
    assert found.outcome is Outcome.NO_VERDICT
    assert missing.partition(" ")[0] in found.explanation.partition("Not measured")[2]
    first = next(iter(made))
    library, algorithm = first.split(" ")
    made[first] = rows_of(library, 0.03, algorithm=algorithm)
    slower = plugged_in(tmp_path / "b", [row for rows in made.values() for row in rows])
    assert slower.outcome is Outcome.NOT_REPRODUCED, "one is enough to refute it"


def test_what_was_not_measured_is_named(tmp_path: Path) -> None:
    sb3 = rows_of("sb3", 0.05, own_is_prioritised=False)
    rows = [*rows_of("tianshou", 0.01), *rows_of("pfrl", 0.01), *sb3]
    rows.append(_absent(Pair("rllib", "dqn"), "failed", "no network"))
    found = plugged_in(tmp_path / "some", rows)
    assert found.outcome is Outcome.NO_VERDICT
    assert [n.value for n in found.ours] == pytest.approx([2.0, 2.0, 0.4])
    assert "Stable-Baselines3" in found.explanation
    assert found.explanation.endswith(
        "Not measured: sb3 ddpg, tianshou ddpg, rllib dqn, rllib sac, torchrl dqn."
    )
    assert found.decides == "`placerl bench adapters` with tianshou ddpg, rllib dqn, rllib sac, torchrl dqn"
    alone = plugged_in(tmp_path / "alone", sb3)
    assert alone.outcome is Outcome.NOT_RUN
    assert (
        "(sb3 ddpg, tianshou dqn, tianshou ddpg, pfrl dqn, rllib dqn, rllib sac, torchrl dqn)" in alone.needs
    )
    assert "failed: no network" in table(rows)
    assert "\nMeasured: sb3 dqn, tianshou dqn, pfrl dqn.\n" in table(rows)
    assert (
        "\nNot measured: sb3 ddpg, tianshou ddpg, pfrl ddpg, rllib dqn, rllib sac, torchrl dqn.\n"
        in table(rows)
    )


@pytest.mark.parametrize(
    ("tianshou", "pfrl", "rllib", "outcome"),
    [
        ((0.018, 0.019), 0.01, (0.01, 0.015), Outcome.IN_KIND),
        ((0.018, 0.019), 0.01, (0.015, 0.01), Outcome.NOT_REPRODUCED),  # SAC gains more than DQN
        ((0.01, 0.011), 0.015, (0.009, 0.01), Outcome.NOT_REPRODUCED),  # PFRL gains less than tianshou
        ((0.01, 0.01), 0.01, (0.01, 0.01), Outcome.NO_VERDICT),
    ],
)
def test_the_verdict_on_the_order_of_gains(
    tianshou: tuple[float, float], pfrl: float, rllib: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*rows_of("pfrl", pfrl)]
    for library, algorithm, times in (("tianshou", "ddpg", tianshou), ("rllib", "sac", rllib)):
        rows += [*rows_of(library, times[0]), *rows_of(library, times[1], algorithm=algorithm)]
    (claim,) = claims("PAL-F11-order")
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "revision", {"fingerprint": "test-machine"}).finish("adapters", rows)
        frame = store.frame()
    assert claim.evaluate(frame).finding.outcome is outcome
    assert claim.evaluate(frame[frame["workload"] == "pfrl dqn"]).finding.outcome is Outcome.NOT_RUN
    # TorchRL's replay is compiled, as tianshou's is, so that its gain may be the smaller one.
    (tmp_path / "compiled").mkdir()
    with Store.open(tmp_path / "compiled" / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "test-machine"})
        run.finish("adapters", [*rows, *rows_of("torchrl", 0.03)])
        assert claim.evaluate(store.frame()).finding.outcome is outcome
    # A gain with continuous actions is not held against one with discrete actions of another library.
    unlike = frame[frame["workload"].isin(["rllib sac", "tianshou dqn"])]
    assert len(unlike["workload"].unique()) == 2
    assert claim.evaluate(unlike).finding.outcome is Outcome.NOT_RUN
