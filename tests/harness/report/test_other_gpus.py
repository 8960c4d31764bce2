"""The GPUs of other machines in the report, and on the page over the committed runs."""

import pytest

from placerl.harness.papers.evidence import last_attempts
from placerl.harness.papers.machines import with_shared
from placerl.harness.profile import lent
from placerl.harness.report import headline, other_gpus
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.validate.predicted_regret import NATIVE, JudgedCell


@pytest.fixture(scope="module")
def references() -> list[Reference]:
    return reference.load()


@pytest.fixture(scope="module")
def cells(references: list[Reference]) -> list[JudgedCell]:
    """The choices for the CPU of the run `standard`."""
    everything = reference.all_rows(references)
    (number,) = (number for number, one in enumerate(references, 1) if one.name == "standard")
    own = last_attempts(everything[everything["run"] == number])
    return other_gpus.judged(with_shared(own, everything), references[number - 1].run)


def test_with_three_devices_the_best_mapping_is_not_always_the_same(cells: list[JudgedCell]) -> None:
    best = {cell.best.mapping for cell in cells if cell.has_board and cell.judge == "map-tpds23"}
    assert {mapping.split("-")[0] for mapping in best} == {"native", "torch:cuda:h200", "fpga:u200"}
    lost = [loss.value for cell in cells if (loss := cell.losses[NATIVE])]
    assert min(lost) == 0
    assert max(lost) > 0.5


def test_every_cell_says_whose_gpu_it_is(cells: list[JudgedCell]) -> None:
    for cell in cells:
        (location,) = (one for one in cell.devices.split(", ") if one.startswith("cuda:"))
        assert cell.machine.startswith(f"{location} is NVIDIA ")
        assert "committed run with-gpu" in cell.machine


def test_a_machine_is_lent_no_gpu_of_its_own(references: list[Reference]) -> None:
    everything = reference.all_rows(references)
    for number, one in enumerate(references, 1):
        found = other_gpus.times(everything[everything["run"] == number])
        assert one.run.fingerprint not in {gpu.reference.run.fingerprint for *_, gpu in found}


def test_a_machine_without_a_full_description_has_no_table(references: list[Reference]) -> None:
    assert other_gpus.judged(reference.all_rows(references[:0]), None) == []


def test_the_committed_page_has_the_choices_for_the_committed_runs(cells: list[JudgedCell]) -> None:
    page = (headline.ROOT / headline.LENT_GPUS).read_text(encoding="utf-8")
    for cell in cells:
        if cell.has_board:
            assert f"| {' | '.join(cell.line)} |" in page
    assert f"\n{lent.measured('h200', 'hopper-ddpg', 256).note}.\n" in page
