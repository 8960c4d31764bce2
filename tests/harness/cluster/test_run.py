"""`placerl run --ray`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("ray", reason="needs the extra 'cluster'")

from placerl.harness.cli.app import app
from placerl.harness.core.errors import UserError
from placerl.harness.store.store import Store

RUN = ["run", "cartpole-dqn", "--mapping", "native-native-cpu", "--ray", "local", "--json"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--overlap", "2"], "--overlap: found 2; allowed: nothing with --ray"),
        (["--shards", "999"], "--shards: found 999"),
        (["--learners", "1001"], "--learners: found 1001"),
        (["--ray", "127.0.0.1:1"], "--ray: found '127.0.0.1:1': "),
        (["--place", "nobody=here"], "--place: found 'nobody=here'"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    more: list[str], said: str, tmp_path: Path
) -> None:
    import placerl.harness.cli  # noqa: F401

    results = tmp_path / "results"
    outcome = CliRunner().invoke(app, [*RUN, *more, "--results", str(results)])
    assert isinstance(outcome.exception, UserError)
    assert said in str(outcome.exception)
    assert not results.exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_rows_say_how_many_of_each_role_there_were(tmp_path: Path) -> None:
    import placerl.harness.cli  # noqa: F401

    more = ["--actors", "2", "--shards", "2", "--steps", "200", "--results", str(tmp_path)]
    outcome = CliRunner().invoke(app, [*RUN, *more])
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads(outcome.stdout)
    assert {"gradient_steps_per_s", "environment_steps_per_s"} <= {row["quantity"] for row in rows}
    for row in rows:
        assert row["suite"] == "cluster"
        assert row["cluster"] == {
            "actors": 2,
            "shards": 2,
            "learners": 1,
            "machines": 1,
            "restarts": {},
        }
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        assert len(store.measurements(suite="cluster")) == len(rows)
