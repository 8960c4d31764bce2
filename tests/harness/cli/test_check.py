"""`placerl check` takes several bundles, and shows some reasons of each."""

from pathlib import Path

from placerl.harness.cli import check_command
from tests.harness.cli.command_line import Placerl
from tests.harness.machines.honest_bundles import honest


def test_each_bundle_has_its_own_answer(placerl: Placerl, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    honest(1).write(good)
    sent = honest(2, check_command.SHOWN + 2)
    rows = tuple(row.model_copy(update={"checked": False}) for row in sent.rows)
    sent.model_copy(update={"rows": rows}).write(bad)
    outcome = placerl("check", str(good), str(bad))
    assert outcome.status == 1
    lines = outcome.out.splitlines()
    assert lines[0] == f"{good}: accepted"
    assert lines[1] == f"{bad}: refused"
    assert len(lines) == 2 + check_command.SHOWN + 1
    assert lines[-1] == "  and 2 more reasons"
