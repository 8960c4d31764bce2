"""Planted cheating is refused, in every bundle; honest bundles are not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.machines.bundle import Bundle, bundle
from placerl.harness.machines.checking import problems
from placerl.harness.machines.sent_file import content_hash
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import committed, honest

Tables = dict[str, Any]
HONEST = 1000
SEEDS = range(5)


def slowed(row: Tables, factor: float) -> None:
    for name in ("time_s", "low_s", "high_s"):
        row[name] *= factor
    row["samples"] = [one * factor for one in row["samples"]]


def recarded(sent: Tables, name: str, factor: float) -> None:
    """Change a figure of the card, with the card's hash."""
    for figure in sent["card"]["figures"]:
        if figure["name"] == name:
            for bound in ("value", "low", "high"):
                figure[bound] *= factor
    resealed(sent)


def resealed(sent: Tables) -> None:
    content = {key: value for key, value in sent["card"].items() if key != "hash"}
    sent["card"]["hash"] = content_hash(content)


def below_the_roofline(sent: Tables) -> None:
    for row in sent["rows"]:
        slowed(row, 0.1)


def unchecked(sent: Tables) -> None:
    sent["rows"][0]["checked"] = False


def edited_time(sent: Tables) -> None:
    sent["rows"][0]["time_s"] *= 0.9
    sent["rows"][0]["low_s"] *= 0.9


def other_workload(sent: Tables) -> None:
    sent["rows"][0]["workload_hash"] = content_hash({"name": "cartpole-dqn", "batch": "smaller"})


def unknown_version(sent: Tables) -> None:
    sent["format"] = "placerl-bundle-2"


def without_card(sent: Tables) -> None:
    del sent["card"]


def not_finite(sent: Tables) -> None:
    sent["rows"][0]["time_s"] = float("nan")


def negative(sent: Tables) -> None:
    sent["rows"][0]["samples"][0] *= -1


def duplicated(sent: Tables) -> None:
    sent["rows"].append(sent["rows"][0])


def copied_samples(sent: Tables) -> None:
    copy = json.loads(json.dumps(sent["rows"][0])) | {"primitive": "storage.gather", "target": "another"}
    slowed(copy, 1.37)
    sent["rows"].append(copy)


def impossible_card(sent: Tables) -> None:
    recarded(sent, "multiply_add.float32", 4.0)


def another_unit(sent: Tables) -> None:
    for figure in sent["card"]["figures"]:
        if figure["name"] == "multiply_add.float32":
            figure["unit"] = "B/s"
    resealed(sent)


def fast_large_memory(sent: Tables) -> None:
    """Listed in an order in which each footprint is slower than the one before."""
    recarded(sent, "latency.256MiB", 1e-3)
    sent["card"]["figures"].sort(key=lambda figure: figure["value"])
    resealed(sent)


def edited_card(sent: Tables) -> None:
    sent["card"]["facts"]["cpu"] = "A faster one"


PLANTED: dict[str, tuple[Callable[[Tables], None], str]] = {
    "times below the roofline": (below_the_roofline, "by the card's"),
    "rows without a check": (unchecked, "checked: found false"),
    "an edited time": (edited_time, "samples' median"),
    "another workload under a known name": (other_workload, "another workload under the name"),
    "an unknown version": (unknown_version, "format: found 'placerl-bundle-2'"),
    "no card": (without_card, "card: found nothing"),
    "a number that is not finite": (not_finite, "NaN"),
    "a negative sample": (negative, "allowed: more than 0"),
    "a row twice": (duplicated, "found 2 of"),
    "samples copied from another row": (copied_samples, "samples of its own"),
    "a card beyond its vectors": (impossible_card, "with its vectors"),
    "a figure in another unit": (another_unit, "found the unit B/s; allowed: FLOP/s"),
    "a large memory faster than a cache": (fast_large_memory, "twice as fast"),
    "an edited card": (edited_card, "it was edited"),
}


def planted(seed: int, plant: Callable[[Tables], None], path: Path) -> None:
    """Write an honest bundle with what somebody planted, and with the right hash.

    The roofline bounds few pieces: that bundle is whole, as `placerl bundle` writes it.
    """
    count = len(committed()) if plant is below_the_roofline else 4
    sent = json.loads(json.dumps(honest(seed, count).model_dump(mode="json", exclude={"hash"})))
    plant(sent)
    text = json.dumps(sent, sort_keys=True, separators=(",", ":"))
    digest = content_hash(sent) if "NaN" not in text else "0" * 64
    path.write_text(json.dumps(sent | {"hash": digest}))


def reasons(path: Path) -> list[str]:
    try:
        return problems(Bundle.read(path))
    except UserError as error:
        return [str(error)]


@pytest.mark.parametrize("family", PLANTED)
def test_planted_cheating_is_refused_with_its_reason(family: str, tmp_path: Path) -> None:
    plant, word = PLANTED[family]
    for seed in SEEDS:
        planted(seed, plant, tmp_path / "a.json")
        found = reasons(tmp_path / "a.json")
        assert any(word in line for line in found), (seed, found)


def test_rows_that_were_edited_after_they_were_written_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    honest(0).write(path)
    path.write_text(
        path.read_text().replace('"too_noisy"', '"ok"').replace('"checked": true', '"checked": false', 1)
    )
    assert "edited" in reasons(path)[0]


def test_no_honest_bundle_is_refused(tmp_path: Path) -> None:
    """Each committed row takes part in several of them."""
    for seed in range(HONEST):
        assert problems(honest(seed)) == [], seed
    for seed in SEEDS:
        honest(seed).write(tmp_path / "a.json")
        assert reasons(tmp_path / "a.json") == []
    assert problems(honest(0, len(committed()))) == []


def test_figures_may_be_listed_in_any_order(tmp_path: Path) -> None:
    def last_first(sent: Tables) -> None:
        sent["card"]["figures"].reverse()
        resealed(sent)

    planted(0, last_first, tmp_path / "a.json")
    assert reasons(tmp_path / "a.json") == []


def test_a_run_as_it_was_measured_is_accepted() -> None:
    """A profile has some parts under two names, with the same samples."""
    assert problems(bundle(a_card(), committed())) == []


def test_the_page_states_what_is_refused() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cards.md").read_text()
    for family in PLANTED:
        assert f"| {family} | {len(SEEDS)} of {len(SEEDS)} |" in page
    assert f"| honest | 0 of {HONEST:,} |" in page
