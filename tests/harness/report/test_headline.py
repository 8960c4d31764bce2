"""The headline results in README and docs are those of the committed reference run."""

import re
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.papers import Outcome, claims
from placerl.harness.papers.machines import JointVerdict
from placerl.harness.report import answers, headline, plots, reading
from placerl.harness.report.content import Content
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from tests.harness.report import sample

README = (headline.ROOT / "README.md").read_text(encoding="utf-8")
NAMES = re.findall(r"reference run \[`[\w.-]+`\]\(docs/results/([\w.-]+)\.md\)", README)
RIGHT, SIMULATED = "Predicts a training's speed", "Predicts it with a simulated FPGA"
VERDICTS = "Checks what five papers state"
JOINT = [JointVerdict(claims("MAP-T5")[0], outcome, {}) for outcome in (Outcome.NOT_RUN, Outcome.NO_VERDICT)]


def results_in(text: str) -> list[str]:
    """Return the results of a page, one a line."""
    return re.findall(r"^- ([TPC]\w+s .+)\.$", text, re.MULTILINE)


def one(results: list[str], beginning: str) -> str:
    (found,) = (result for result in results if result.startswith(beginning))
    return found


def committed(name: str) -> Reference:
    (found,) = (each for each in reference.load() if each.name == name)
    return found


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return reading.read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def test_the_results_are_those_of_the_run(content: Content) -> None:
    found = results_in(headline.results(content, "standard", JOINT))
    hopper = one(found, "Trains Hopper with DDPG 0.8 times as fast as Stable-Baselines3 on the same CPU [")
    assert hopper.endswith("], slower; 64 transitions a batch (measured)")
    assert "of 6 trainings, 6 within 5% (modelled)" in one(found, RIGHT)
    assert not any(result.startswith(SIMULATED) for result in found)
    assert one(found, VERDICTS).endswith(
        "over [all evidence](docs/results/verdicts.md): 1 not run, 1 no verdict"
    )


def test_trainings_with_a_simulated_device_have_a_line_of_their_own(content: Content) -> None:
    found = results_in(headline.results(sample.simulated(content, batch_size=256), "standard", JOINT))
    assert "of 3 trainings, 3 within 5%" in one(found, RIGHT)
    assert "of 3 trainings, 3 within 5%" in one(found, SIMULATED)


def test_readme_keeps_everything_but_the_table() -> None:
    text = f"before\n{headline.BEGIN}old\n{headline.END}after\n"
    assert headline.in_readme(text, "new\n") == f"before\n{headline.BEGIN}\nnew\n\n{headline.END}after\n"
    with pytest.raises(AssertionError, match="README has no"):
        headline.in_readme("nothing", "new")


def test_an_unknown_reference_is_named() -> None:
    with pytest.raises(UserError, match="'unheard-of'"):
        headline.write("unheard-of")


@pytest.mark.parametrize(
    ("arguments", "alone"), [(["quick"], False), (["quick", "--page"], True), (["--page", "quick"], True)]
)
def test_the_command_line_names_the_run_and_may_ask_for_the_page_alone(
    arguments: list[str],
    alone: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def write(name: str, *, page_alone: bool) -> list[Path]:
        asked.append((name, page_alone))
        return [Path("one"), Path("other")]

    monkeypatch.setattr(headline, "write", write)
    headline.main(arguments)
    assert asked == [("quick", alone)]
    assert capsys.readouterr().out == "one\nother\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: NAME"),
        (["unheard-of"], "'unheard-of'"),
        (["quick", "--pages"], "unrecognized arguments: --pages"),
        (["quick", "--pag"], "unrecognized arguments: --pag"),
        (["quick", "standard"], "unrecognized arguments: standard"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        headline.main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_the_help_names_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        headline.main(["--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert "NAME" in said
    assert "--page" in said


def test_the_picture_has_colours_for_light_and_dark(content: Content) -> None:
    drawn = headline.picture(content)
    assert drawn.startswith("<svg ")
    assert 'xmlns="http://www.w3.org/2000/svg"' in drawn
    assert "prefers-color-scheme: dark" in drawn
    named = set(re.findall(r"var\((--[\w-]+)\)", drawn))
    assert {name for name in named if f"{name}:" not in drawn} == {"--least-width"} & named


def test_the_page_of_verdicts_names_the_run() -> None:
    (name,) = NAMES
    page = (headline.ROOT / headline.page_of(name)).read_text(encoding="utf-8")
    run = committed(name).run
    assert f"begun {run.started_at}, revision `{run.revision[:12]}`, machine `{run.fingerprint}`" in page


def test_readme_counts_the_verdicts_over_all_evidence() -> None:
    counted = one(results_in(README), VERDICTS).partition("verdicts.md): ")[2]
    assert f" claims: {counted}.\n" in (headline.ROOT / headline.VERDICTS).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_committed_table_and_picture_are_those_of_the_run() -> None:
    """But for the verdicts, which are those of the checks that wrote them."""
    (name,) = NAMES
    content = headline.content_of(committed(name))
    computed, shown = (results_in(text) for text in (headline.results(content, name, []), README))
    assert len(computed) > 4
    assert computed[:-1] == shown[:-1]
    assert any("times as fast" in result for result in computed)
    rates = headline.standing_alone(plots.rates(answers.whole_trainings(content)))
    for path, drawn in ((headline.PICTURE, headline.picture(content)), (headline.RATES, rates)):
        picture = (headline.ROOT / path).read_text(encoding="utf-8")
        for parts in (r"<use ", r"<text [^>]*>([^<]+)</text>"):
            assert re.findall(parts, picture) == re.findall(parts, drawn)
