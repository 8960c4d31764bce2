"""The study of a cell and its summary, on choices whose times are known."""

from dataclasses import replace
from statistics import median

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Loop, Mapping, Prediction
from placerl.harness.validate.space import Decision
from placerl.harness.validate.study import FINALISTS, OURS, StudiedCell, study
from placerl.harness.validate.study_cell import Final
from placerl.harness.validate.study_summary import cell_lines, entropy, results, summary
from tests.harness.validate.achieved import PACE

CELL = StudiedCell("hopper-ddpg", 32, 2)
NATIVE = Decision(Mapping.parse("native-native-cpu"))
TORCH = Decision(Mapping.parse("torch-native-cpu"))
FLAT = Decision(Mapping.parse("native-flat-cpu"))


def of_threads(number: int, choice: Decision = NATIVE) -> Decision:
    return replace(choice, threads=number)


class Known:
    """A cell whose choices have known rates and predictions; the machine changes its pace from round to round.

    Args:
        rates: gradient steps per second by choice; None fails.
        predicted: predictions by choice.
        chosen: what each strategy chooses.
    """

    def __init__(self, rates, predicted, chosen=None):
        self.choices = tuple(rates)
        self.failures = {}
        self.asked, self.now_s, self.profiled, self.tables = [], 0.0, 0, {}
        self._rates, self._predicted, self._chosen = rates, predicted, chosen or {}

    def profile(self, budget_s, report):
        self.profiled += 1

    def predict(self, choice):
        assert self.profiled
        gps = self._predicted.get(choice)
        if gps is None:
            return None
        return Prediction(choice.mapping, "known", gps, {"learner": 1 / gps}, (), Provenance.MEASURED)

    def strategies(self):
        return dict(self._chosen)

    def turn(self, choice, seconds):
        self.now_s += seconds
        if self._rates.get(choice) is None:
            self.failures[choice] = "OSError: no such device"
            return None
        return self._rates[choice]

    def finals(self, choices, budget_s, report, file):
        self.asked = list(choices)
        found = {}
        for choice in choices:
            rates = {number: self._rates[choice] * pace for number, pace in enumerate(PACE)}
            gps = self._predicted.get(choice)
            errors = () if gps is None else (gps / self._rates[choice] - 1,) * len(PACE)
            found[choice] = Final(rates, errors)
        return found

    def rows(self):
        return study(CELL, self, 10.0, clock=lambda: self.now_s)


def by_quantity(rows, quantity):
    return {(row.strategy, row.choice): row for row in rows if row.quantity == quantity}


def test_the_best_is_found_by_running_and_regrets_are_losses_against_it():
    rates = {of_threads(n): 100.0 + n for n in range(1, 9)} | {TORCH: 50.0}
    # Predicted best is 6 threads, of which 8 are faster; the paper's strategy takes the slowest.
    predicted = {of_threads(n): 100.0 for n in range(1, 9)} | {of_threads(6): 110.0}
    known = Known(rates, predicted, {"a paper's": TORCH})
    rows = known.rows()
    assert set(known.asked) == {of_threads(n) for n in (5, 6, 7, 8)} | {TORCH}
    assert len(known.asked) == FINALISTS + 1
    regrets = {row.strategy: row for row in rows if row.quantity == "regret"}
    assert regrets[OURS].value == pytest.approx(1 - 106 / 108)
    assert regrets[OURS].best == str(of_threads(8))
    assert regrets[OURS].verdict == "lost", "by rounds the change of pace cancels"
    assert regrets["a paper's"].value == pytest.approx(1 - 50 / 108)
    assert regrets["a paper's"].low == pytest.approx(1 - 50 / 108)


def test_of_equal_predictions_the_one_with_the_larger_d_is_chosen():
    few, many = (replace(NATIVE, ahead=ahead) for ahead in (2, 50))
    rows = Known({few: 90.0, many: 100.0}, {few: 100.0 + 1e-6, many: 100.0}).rows()
    assert next(row for row in rows if row.quantity == "regret" and row.strategy == OURS).value == 0.0


def test_every_choice_has_a_row_with_the_stage_that_it_reached():
    rates = {of_threads(n): 100.0 + n for n in range(1, 17)}
    made = Known(rates, {of_threads(1): 101.0}).rows()
    rows = by_quantity(made, "gradient_steps_per_s")
    assert len(rows) == 16
    stages = [rows["placerl", str(of_threads(n))].stage for n in (1, 2, 8, 9, 12, 16)]
    # The slowest was chosen, so it is in the final.
    assert stages == ["final", "heat 1", "heat 1", "heat 2", "heat 2", "final"]
    final = rows["placerl", str(of_threads(16))]
    assert final.value == pytest.approx(116 * median(PACE))
    assert final.low < final.value < final.high
    lost = by_quantity(made, "regret")[OURS, str(of_threads(1))]
    assert lost.value == pytest.approx(1 - 101 / 116)


def test_errors_are_those_of_the_final_and_others_are_told_apart():
    rates = {of_threads(n): 100.0 for n in range(1, 10)} | {TORCH: 80.0}
    predicted = {of_threads(1): 103.0, TORCH: 40.0}
    rows = by_quantity(Known(rates, predicted).rows(), "predicted_gradient_steps_per_s")
    assert rows[OURS, str(NATIVE)].error == pytest.approx(0.03)
    assert rows[OURS, str(NATIVE)].provenance is Provenance.MODELLED
    slow = rows[OURS, str(TORCH)]
    assert slow.error_before == pytest.approx(-0.5)
    assert slow.error is None, "it never came into the final"


def test_rates_and_errors_that_drift_are_known_no_better_than_between_their_extremes():
    """Neighbouring rounds agree, so that 20 of them are worth few."""

    class Drifting(Known):
        def finals(self, choices, budget_s, report, file):
            rates = {number: 100.0 + number for number in range(20)}
            errors = tuple(100.0 / gps - 1 for gps in rates.values())
            return {choice: Final(rates, errors) for choice in choices}

    rows = Drifting({NATIVE: 100.0}, {NATIVE: 100.0}).rows()
    rate = by_quantity(rows, "gradient_steps_per_s")["placerl", str(NATIVE)]
    assert (rate.low, rate.high) == (100, 119)
    made = by_quantity(rows, "predicted_gradient_steps_per_s")[OURS, str(NATIVE)]
    assert (made.error_low, made.error_high) == pytest.approx((100 / 119 - 1, 0))


def test_what_a_strategy_chose_outside_the_space_is_judged_too():
    known = Known({NATIVE: 100.0, FLAT: 50.0}, {NATIVE: 100.0, FLAT: 55.0}, {"a paper's": FLAT})
    known.choices = (NATIVE,)
    rows = by_quantity(known.rows(), "predicted_gradient_steps_per_s")
    assert rows[OURS, str(FLAT)].error == pytest.approx(0.1)


def test_one_round_does_not_show_that_the_chosen_is_the_best():
    class Once(Known):
        def finals(self, choices, budget_s, report, file):
            found = super().finals(choices, budget_s, report, file)
            return {choice: Final({0: one.rates[0]}, one.errors[:1]) for choice, one in found.items()}

    rows = Once({NATIVE: 100.0, TORCH: 90.0}, {NATIVE: 100.0, TORCH: 90.0}, {"a paper's": TORCH}).rows()
    regrets = {row.strategy: row for row in rows if row.quantity == "regret"}
    assert (regrets[OURS].value, regrets[OURS].verdict) == (0.0, "no verdict")
    assert regrets[OURS].why_no_verdict == "1 rounds"
    text = "\n".join(summary(results(rows)))
    assert (
        "at most 2% in 100% of 1 cells (goal 95%: met); without a verdict: 1 of these, 0 of the others"
        in text
    )
    assert "at most 2% in 0% of 1 cells; without a verdict: 0 of these, 1 of the others" in text


def test_what_is_predicted_far_slower_is_not_run_unless_it_was_chosen():
    rates = {NATIVE: 100.0, TORCH: 40.0, FLAT: 30.0}
    predicted = {NATIVE: 100.0, TORCH: 10.0, FLAT: 20.0}
    rows = Known(rates, predicted, {"a paper's": FLAT}).rows()
    ran = by_quantity(rows, "gradient_steps_per_s")
    assert ran["placerl", str(TORCH)].status == "not_run"
    assert ran["placerl", str(TORCH)].reason.startswith("predicted 10.0 times slower than the best")
    assert ran["placerl", str(FLAT)].stage == "final"
    assert by_quantity(rows, "predicted_gradient_steps_per_s")[OURS, str(TORCH)].value == 10.0
    (cell,) = results(rows)
    assert (len(cell.finalists), cell.failed, cell.not_run) == (2, 0, 1)


def test_what_fails_or_chooses_nothing_says_so():
    chosen = {"cannot": "no pair of targets", "broken": FLAT}
    rows = Known({NATIVE: 100.0, TORCH: 90.0}, {NATIVE: 100.0}, chosen).rows()
    regrets = {row.strategy: row for row in rows if row.quantity == "regret"}
    assert (regrets["cannot"].status, regrets["cannot"].reason) == ("not_run", "needs: no pair of targets")
    assert regrets["broken"].status == "not_run"
    assert "OSError: no such device" in regrets["broken"].reason
    assert regrets[OURS].verdict == "best"
    failed = by_quantity(rows, "gradient_steps_per_s")["placerl", str(FLAT)]
    assert (failed.status, failed.reason) == ("failed", "OSError: no such device")


def test_without_a_prediction_this_project_chooses_nothing():
    rows = Known({NATIVE: 100.0}, {}).rows()
    assert not [row for row in rows if row.quantity == "regret"]


@pytest.mark.parametrize(
    ("values", "bits"), [([], 0), (["a"] * 8, 0), (["a", "b"], 1), (list("aabc"), 1.5), (list("abcd"), 2)]
)
def test_entropy_counts_how_often_each_choice_is_best(values, bits):
    assert entropy(values) == pytest.approx(bits)


def cell(workload, rates, predicted, chosen=None):
    """The rows of a cell of that name."""
    return [replace(row, workload=workload) for row in Known(rates, predicted, chosen).rows()]


def test_the_summary_has_every_goal_with_its_verdict():
    two = of_threads(2)
    rows = [
        *cell("one", {NATIVE: 100.0, two: 50.0}, {NATIVE: 101.0, two: 50.0}, {"map-tpds23": NATIVE}),
        *cell("two", {NATIVE: 80.0, two: 100.0}, {NATIVE: 80.0, two: 101.0}, {"map-tpds23": NATIVE}),
    ]
    found = results(rows)
    lines = summary(found)
    text = "\n".join(lines)
    assert len(lines) <= 40
    assert text.startswith("2 cells; 4 finalists; 0 choices failed, 0 were predicted too slow to be run.")
    assert "2 different, entropy 1.00 bits of at most 1.00" in text
    assert "threads 1.00, actors 0.00" in text
    assert "median 0.5% (goal 2%: met)" in text
    assert "100% within 5% (goal 90%: met)" in text
    assert "worst +1.0% (goal none above 15%: met)" in text
    assert f"- {OURS}: median 0.0%, worst 0.0%; at most 2% in 100% of 2 cells (goal 95%: met)" in text
    assert "- map-tpds23: median 10.0%, worst 20.0%; at most 2% in 50% of 2 cells" in text
    assert f"loses most in two B = 32, 2 cores: {NATIVE}; best {two}" in text
    assert cell_lines(found) == [
        ["one B = 32, 2 cores", str(NATIVE), "100 [87.5, 112.5]", str(NATIVE), "0.0% (best)", "+1.0%"],
        ["two B = 32, 2 cores", str(two), "100 [87.5, 112.5]", str(two), "0.0% (best)", "+1.0%"],
    ]


def test_errors_are_told_apart_by_cores_and_by_loop():
    relaxed = replace(NATIVE, loop=Loop.RELAXED, ahead=50)
    rows = cell("one", {NATIVE: 100.0, relaxed: 200.0}, {NATIVE: 101.0, relaxed: 180.0})
    one_core = [replace(row, cores=1) for row in cell("one", {NATIVE: 80.0}, {NATIVE: 80.0})]
    lines = summary(results([*rows, *one_core]))
    assert "- median and share within 5%: 1 core 0.0%, 100% (1); 2 cores 5.5%, 50% (2)" in lines
    assert "- median and share within 5%: fused 0.5%, 100% (2); relaxed 10.0%, 0% (1)" in lines
    assert not any("median and share" in line for line in summary(results(one_core)))


def test_a_cell_without_a_final_hides_no_other():
    unfinished = [row for row in cell("none", {NATIVE: 100.0}, {NATIVE: 100.0}) if row.stage != "final"]
    found = results([*unfinished, *cell("one", {NATIVE: 100.0}, {NATIVE: 100.0})])
    assert [one.workload for one in found] == ["one"]


def test_a_strategy_that_chose_in_some_cells_says_why_not_in_the_others():
    rows = [
        *cell("one", {NATIVE: 100.0}, {NATIVE: 100.0}, {"pal21": "two cores"}),
        *cell("two", {NATIVE: 100.0}, {NATIVE: 100.0}, {"pal21": NATIVE}),
    ]
    line = next(line for line in summary(results(rows)) if "pal21" in line)
    assert line == (
        "- pal21: median 0.0%, worst 0.0%; at most 2% in 100% of 1 cells; not run in 1: needs: two cores"
    )


def test_a_cell_without_predictions_has_a_best_choice_alone():
    rows = [row for row in cell("one", {NATIVE: 100.0}, {NATIVE: 50.0}) if row.strategy != OURS]
    bare = [replace(row, low=None, high=None) for row in rows]
    assert cell_lines(results(bare)) == [["one B = 32, 2 cores", str(NATIVE), "100", "", "", ""]]
    assert "No finalist was predicted." in summary(results(bare))


def test_the_best_choice_is_that_of_the_regrets_although_one_that_was_left_out_ran_faster():
    rows = cell("one", {NATIVE: 100.0, TORCH: 90.0}, {NATIVE: 100.0, TORCH: 90.0})
    faster = [
        replace(row, value=200.0)
        if row.quantity == "gradient_steps_per_s" and row.choice == str(TORCH)
        else row
        for row in rows
    ]
    (found,) = results(faster)
    assert (found.best.choice, found.best.value) == (str(NATIVE), 100.0)


def test_the_summary_states_the_errors_from_the_pieces_that_were_timed_before():
    rows = [
        row if row.error is None else replace(row, error_before=-0.25)
        for row in cell("one", {NATIVE: 100.0}, {NATIVE: 101.0})
    ]
    (line,) = [line for line in summary(results(rows)) if "timed before" in line]
    assert line == "- median 1.0% (goal 2%: met); 25.0% from the pieces timed before"


def test_goals_that_are_missed_and_strategies_that_chose_nothing():
    two = of_threads(2)
    rows = cell("one", {NATIVE: 100.0, two: 50.0}, {NATIVE: 50.0, two: 60.0}, {"pal21": "two cores"})
    text = "\n".join(summary(results(rows)))
    assert "median 35.0% (goal 2%: missed)" in text
    assert "0% within 5% (goal 90%: missed)" in text
    assert "worst -50.0% (goal none above 15%: missed)" in text
    assert "at most 2% in 0% of 1 cells (goal 95%: missed)" in text
    assert "- pal21: not run in 1 cells: needs: two cores" in text
    assert summary([]) == ["No cell has a final."]


def test_a_choice_names_what_differs_from_the_plainest():
    assert str(NATIVE) == "native-native-cpu fused"
    relaxed = replace(TORCH, loop=Loop.RELAXED, ahead=50, threads=2, actors=8, processes=1)
    assert str(relaxed) == "torch-native-cpu relaxed, D = 50, 2 threads, 8 actors"
    assert relaxed.setting == (2, 8, 0), "off-policy, pieces with and without processes are timed together"
    assert str(replace(NATIVE, processes=2)) == "native-native-cpu fused, 2 processes"
    assert replace(NATIVE, processes=2).setting == (1, 1, 2)
    assert relaxed.columns()["mapping"] == "torch-native-cpu"
