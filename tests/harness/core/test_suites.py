"""Suites are declared once: rows of another quantity are refused."""

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import QUANTITIES
from placerl.harness.core.row import Measurement
from placerl.harness.core.suites import PREDICTING, Suite
from placerl.harness.report import reference


def row(suite: str, quantity: str = "time_per_call") -> Measurement:
    return Measurement(
        suite=suite, primitive="p", quantity=quantity, provenance=Provenance.MEASURED, value=1.0
    )


def test_a_row_holds_a_quantity_of_its_suite() -> None:
    with pytest.raises(ValueError, match="quantity: found 'regret'; allowed: profile: time_per_call"):
        row(Suite.PROFILE, "regret")
    assert row(Suite.VALIDATION, "predicted_gradient_steps_per_s").unit == "1/s"
    assert row(Suite.MEMORY, "failure").quantity == "failure"


def test_a_row_holds_plain_text() -> None:
    assert type(row(Suite.PROFILE).suite) is str
    assert row(Suite.PROFILE) == row("profile")
    assert f"{Suite.MACHINE_PEAKS}/machine" == "roofs/machine"


def test_rows_of_other_programs_may_have_any_suite_and_quantity() -> None:
    assert row("theirs", "regret").suite == "theirs"
    assert row("profile", "regret").suite == "profile"


@pytest.mark.parametrize("suite", Suite)
def test_quantities_are_declared(suite: Suite) -> None:
    assert suite.quantities
    assert suite.quantities <= set(QUANTITIES)
    assert suite.about


def test_predictions_are_those_of_strategies() -> None:
    assert set(PREDICTING) == {"prediction", "precision_prediction", "simulated_prediction"}


@pytest.mark.parametrize("run", reference.load(), ids=lambda run: run.name)
def test_the_rows_of_the_reference_runs_are_declared(run: reference.Reference) -> None:
    odd = {(one.suite, one.quantity) for one in run.measurements if not Suite(one.suite).holds(one.quantity)}
    assert not odd


<<<<<<< HEAD
def test_an_experiment_holds_declared_quantities_alone() -> None:
    with pytest.raises(ValueError, match=r"experiment X: quantity: found 'speed'; allowed: .*time_per_call"):
        Experiment("X", "nothing", "time_per_call speed")
    made = Experiment("X", "calls", "time_per_call")
    assert (made, made.about) == ("X", "calls")


def test_a_row_holds_a_quantity_of_its_experiment() -> None:
    details = {"experiment": Experiment("X", "calls", "time_per_call")}
    of = {"primitive": "p", "provenance": Provenance.MEASURED, "value": 1.0, "details": details}
    assert Measurement(suite=Suite.CLAIM, quantity="time_per_call", **of).details == {"experiment": "X"}
    with pytest.raises(ValueError, match="experiment X: quantity: found 'regret'; allowed: time_per_call"):
        Measurement(suite=Suite.CLAIM, quantity="regret", **of)
=======
def named_here(tree: ast.Module) -> list[int]:
    """Return the lines in which a text stands for a suite: an argument, an entry or a comparison."""
    lines = []
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.keyword) and node.arg == "suite":
            values = [node.value]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            values = [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "suite"]
        elif isinstance(node, ast.Compare) and re.search(r"\bsuite\b(?!\))", ast.unparse(node.left)):
            values = [*node.comparators, *(e for c in node.comparators for e in getattr(c, "elts", ()))]
        lines += [v.lineno for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
    return lines


def test_no_file_names_a_suite_itself() -> None:
    found = [
        f"{path.relative_to(HARNESS)}:{line}"
        for path in sorted(HARNESS.rglob("*.py"))
        for line in named_here(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


@pytest.mark.parametrize(
    "source", ['f(suite="run")', '{"suite": "run"}', 'frame["suite"] == "run"', 'row.suite in ("run", x)']
)
def test_a_suite_that_is_named_is_found(source: str) -> None:
    assert named_here(ast.parse(source)) == [1]
>>>>>>> 192a4ad1 (papers: declare the columns of each experiment's rows)
