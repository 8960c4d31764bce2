"""A bundle holds what a run measured."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.machines import bundle as bundles
from placerl.harness.machines.bundle import Bundle, bundle
from placerl.harness.machines.work_of import work_of
from placerl.harness.pieces.work import WORD_BYTES
from placerl.harness.workloads.task import item_bytes
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import committed


def test_the_committed_schema_is_that_of_the_bundle() -> None:
    schema = Path(bundles.__file__).with_suffix(".schema.json")
    assert json.loads(schema.read_text()) == Bundle.model_json_schema()


def test_a_bundle_has_what_the_rows_of_the_run_state() -> None:
    rows = committed()[:20]
    same = (
        "workload",
        "batch_size",
        "primitive",
        "target",
        "backend",
        "device",
        "samples",
        "status",
        "items_per_call",
    )
    for row, packed in zip(rows, bundle(a_card(), rows).rows, strict=True):
        assert [getattr(packed, name) for name in same] == [getattr(row, name) for name in same]
        assert (packed.time_s, packed.low_s, packed.high_s) == (row.value, row.low, row.high)


def test_a_run_without_rows_is_no_bundle() -> None:
    elsewhere = replace(committed()[0], workload="mine")
    with pytest.raises(UserError, match="none of a shipped workload"):
        bundle(a_card(), [elsewhere])


def test_the_work_counted_here_is_that_of_the_profile() -> None:
    counted = 0
    for row in committed():
        work = work_of(row.workload, row.batch_size or 0, row.primitive)
        if work is None or not row.work:
            continue
        stated: dict[str, Any] = dict(row.work)
        if row.primitive.startswith("storage"):
            # The committed run counted four bytes for each number of a transition, not those that are stored.
            item = workloads.load(row.workload)
            stored, before = item_bytes(item), WORD_BYTES * item.item_words
            stated = {name: Fraction(value * stored, before) for name, value in stated.items()}
        assert vars(work) == stated, row.primitive
        counted += 1
    assert counted > 50


def test_a_card_of_another_machine_is_told_by_what_differs() -> None:
    facts = a_card().facts
    assert bundles.differences(facts, facts.model_copy(update={"simd_level": "avx512"})) == ["simd_level"]
