"""From stored measurements to the rows on other libraries: comparisons and what was learnt."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.compare import learning
from placerl.harness.compare.equal_steps import LEARNS_LESS, NOT_COMPARED, RETURN
from placerl.harness.compare.parts import ENVIRONMENT_STEPS_PER_S
from placerl.harness.core.row import Row
from placerl.harness.report import pages, tables
from placerl.harness.report.content import Content
from placerl.harness.report.reading import read
from placerl.harness.report.text_tables import text_tables
from placerl.harness.store.store import Store
from tests.harness.papers.rows import compared, frame_of, measurement, trained
from tests.harness.report import sample

NOISY = {"status": "too_noisy", "reason": "the interval is 30% of the median, where 10% is the limit"}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def test_comparisons_have_both_rates_the_null_and_a_verdict(content: Content) -> None:
    verdicts = {(c.workload, c.baseline): c for c in content.comparisons}
    first = verdicts["cartpole-ddpg", "sb3"]
    assert (first.verdict, verdicts["cartpole-dqn", "sb3"].verdict) == ("faster", "no verdict")
    assert verdicts["hopper-ddpg", "sb3"].verdict == "slower"
    assert first.ratio
    assert first.ours
    assert first.theirs
    assert first.null
    assert first.ours.value / first.theirs.value == pytest.approx(first.ratio.value)
    assert first.rate == "gradient steps"
    failed = verdicts["hopper-ddpg", "rllib"]
    assert (failed.verdict, failed.ratio) == ("failed", None)
    assert "worker ended" in failed.reason


@pytest.mark.usefixtures("plots_not_drawn")
def test_a_comparison_shows_both_returns_at_equal_steps_and_what_they_say(tmp_path: Path) -> None:
    details = {
        "baseline": "sb3",
        "verdict": LEARNS_LESS,
        "returns": "mean return after 4,000 environment steps",
    }
    rows = [
        compared(3.0, LEARNS_LESS, details=details),
        *(
            compared(value, "", quantity=RETURN, details={"baseline": "sb3", "part": f"{part}, return"})
            for part, value in (("ours", 10.0), ("theirs", 80.0))
        ),
        compared(5.0, NOT_COMPARED, baseline="rllib"),
    ]
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "r", sample.MACHINE).finish("a", rows)
    content = read(tmp_path / "store.sqlite")
    other, found = content.comparisons
    assert (found.verdict, found.returns) == (LEARNS_LESS, details["returns"])
    assert found.our_return
    assert found.their_return
    assert (found.our_return.value, found.their_return.value) == (10, 80)
    assert (other.verdict, other.our_return, other.returns) == (NOT_COMPARED, None, "")
    table = pages.render(content, "libraries").partition('id="comparisons"')[2].partition("</table>")[0]
    assert 'class="badge faster-but-learns-less">faster, but learns less<' in table
    assert 'class="badge faster-returns-not-compared">' in table
    assert details["returns"] in table
    assert ">10</data>" in table
    assert ">80</data>" in table
    (text,) = (t for t in text_tables(content) if t.name == "comparisons")
    assert text.rows[0][-2:] == ("not compared", NOT_COMPARED)
    assert text.rows[1][-1] == LEARNS_LESS
    assert "80" in text.rows[1][-2]


def test_a_comparison_that_stored_no_verdict_has_none(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, compared(2.0, "", details={"baseline": "sb3"}))
    (found,) = tables.comparisons(frame)
    assert found.ratio is not None
    assert found.ratio.low is not None
    assert found.ratio.low > 1
    assert found.verdict == "no verdict"


def test_a_comparison_with_a_noisy_rate_keeps_its_verdict(tmp_path: Path) -> None:
    details = {"baseline": "sb3", "part": "theirs"}
    noisy = trained(500.0, 64, suite="compare", workload="cartpole-dqn", details=details, **NOISY)
    for rows in ((compared(2.0, "faster"), noisy), (noisy, compared(2.0, "faster"))):
        (found,) = tables.comparisons(frame_of(tmp_path, *rows))
        assert (found.verdict, found.reason) == ("faster", "")
        assert found.theirs
        assert found.theirs.value == 500


def comparison_rows(ratio: float, verdict: str, **details: object) -> list[Row]:
    """The rows that one comparison stores in its cell."""
    fields = {"suite": "compare", "workload": "cartpole-dqn"}
    return [
        *(
            trained(rate, 64, **fields, details={"baseline": "sb3", "part": part})
            for part, rate in (("ours", 100 * ratio), ("theirs", 100.0))
        ),
        compared(
            ratio,
            verdict,
            details={"baseline": "sb3", "part": "throughput_ratio", "verdict": verdict} | details,
        ),
        compared(1.0, "", quantity="null_ratio", details={"baseline": "sb3", "part": "null_ratio"}),
    ]


def test_the_rates_beside_a_ratio_are_those_that_it_judges(tmp_path: Path) -> None:
    ours, *rows = comparison_rows(2.0, "faster", rate=ENVIRONMENT_STEPS_PER_S)
    fields = {"suite": "compare", "workload": "cartpole-dqn", "quantity": ENVIRONMENT_STEPS_PER_S}
    for part, rate, noise in (("ours", 3000.0, {}), ("theirs", 1500.0, NOISY)):
        details = {"baseline": "sb3", "part": f"{part}, environment"}
        rows.append(trained(rate, 64, **fields, **noise, details=details))
    (found,) = tables.comparisons(frame_of(tmp_path, replace(ours, **NOISY), *rows))
    assert found.ours
    assert found.theirs
    assert (found.ours.value, found.theirs.value, found.rate) == (3000, 1500, "environment steps")
    assert found.noisy == ("theirs",), "gradient steps are not shown"


def test_of_two_comparisons_under_one_name_the_last_is_shown_alone(tmp_path: Path) -> None:
    """`placerl compare` with the workload's own batch size, or with a flushed baseline, has a cell of its own."""
    first = comparison_rows(3.0, "faster", returns="learns as much")
    learnt = {"baseline": "sb3", "part": "ours, return"}
    first.append(compared(10.0, "", quantity=RETURN, details=learnt))
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("compare/cartpole-dqn/sb3", first)
        run.finish("compare/cartpole-dqn/sb3/64", comparison_rows(0.5, "slower"))
    (found,) = read(tmp_path / "store.sqlite").comparisons
    assert found.ratio
    assert found.ours
    assert (found.verdict, found.ratio.value, found.ours.value) == ("slower", 0.5, 50)
    assert (found.returns, found.our_return) == ("", None)


def test_a_comparison_that_fails_later_does_not_show_the_ratio_of_an_earlier_one(tmp_path: Path) -> None:
    details = {"baseline": "sb3", "part": "theirs"}
    gone = {"status": "failed", "reason": "sb3: crash", "details": details, "workload": "cartpole-dqn"}
    failed = measurement(
        None,
        suite="compare",
        primitive="training",
        quantity="gradient_steps_per_s",
        unit="1/s",
        batch_size=64,
        **gone,
    )
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("compare/cartpole-dqn/sb3", comparison_rows(3.0, "faster"))
        run.finish("compare/cartpole-dqn/sb3/flushed", [failed])
    (found,) = read(tmp_path / "store.sqlite").comparisons
    assert (found.verdict, found.reason, found.ratio, found.theirs) == ("failed", "sb3: crash", None, None)


@pytest.mark.usefixtures("plots_not_drawn")
def test_what_was_learnt_and_lost_again_shows_beside_the_end(content: Content) -> None:
    ours, theirs = content.learning
    assert (ours.system, theirs.system, ours.seeds, ours.best_step) == ("placerl", "sb3", 5, 90_000)
    assert ours.end
    assert ours.best
    assert (ours.end.value, ours.best.value, ours.best.provenance) == (120, 430, "measured")
    table = pages.render(content, "libraries").partition('id="learning"')[2].partition("</table>")[0]
    for value in ("120", "430", "90,000", "300", "310"):
        assert f">{value}</data>" in table


def test_learning_of_a_stranger_that_tells_no_details_is_shown(tmp_path: Path) -> None:
    fields = {"suite": "learn", "unit": "1", "details": {}}
    rows = [trained(9.0, quantity=quantity, **fields) for quantity in (learning.END, learning.BEST)]
    (found,) = tables.learning(frame_of(tmp_path, *rows))
    assert (found.seeds, found.best_step) == (None, None)


@pytest.mark.usefixtures("plots_not_drawn")
def test_a_system_of_which_every_seed_failed_is_a_line_with_the_reason(tmp_path: Path) -> None:
    rows = [learning.summary("cartpole-dqn", "sb3", []), learning.best("cartpole-dqn", "sb3", [])]
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "r", sample.MACHINE).finish("a", rows)
    content = read(tmp_path / "store.sqlite")
    (found,) = content.learning
    assert (found.end, found.best, found.best_step, found.reason) == (None, None, None, "every seed failed")
    assert (
        "every seed failed"
        in pages.render(content, "libraries").partition('id="learning"')[2].partition("</table>")[0]
    )
