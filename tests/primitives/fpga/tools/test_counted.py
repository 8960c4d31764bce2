"""What is committed of cells: complete, readable, and of the blocks as they are."""

import pytest

from placerl.primitives.fpga.tools import counted, resources
from placerl.primitives.fpga.tools.blocks import BLOCKS
from placerl.primitives.fpga.tools.counted import Counted
from placerl.primitives.fpga.tools.resources import CountedPart, Synthesis

COMBINATIONAL = "lane-route"
LARGEST = ("map-accelerator", "ppo-accelerator", "fixar", "learner-pipeline", "replay-pipeline fanout=16")
"""Blocks whose export takes half a minute or more."""


def test_every_subject_is_committed_with_cells_that_are_known() -> None:
    assert set(counted.committed()) == set(counted.SUBJECTS), "placerl bench fpga-tables resources --count"
    for found in counted.committed().values():
        assert found.resources.luts > 0
        assert (found.resources.flip_flops == 0) == (found.subject.block == COMBINATIONAL), found.subject.name


def test_parts_are_of_their_block_and_never_more_than_it() -> None:
    for name, found in counted.committed().items():
        assert bool(found.synthesis.parts) <= found.subject.by_module, name
        if found.synthesis.parts:
            assert found.resources_of("").flip_flops <= found.resources.flip_flops
            assert found.resources_of("").dsps <= found.resources.dsps


def test_parts_are_added_up_by_the_beginning_of_their_name() -> None:
    parts = {
        "level_0": CountedPart(1, {"FDRE": 2}),
        "level_1": CountedPart(3, {"FDRE": 5, "LUT2": 1}),
        "other": CountedPart(1, {}),
    }
    found = Counted(next(iter(counted.SUBJECTS.values())), "", "", Synthesis({"FDRE": 20}, None, parts))
    assert found.resources_of("level_").flip_flops == 17
    assert found.resources_of("level_1").luts == 3
    with pytest.raises(KeyError, match="lane"):
        found.resources_of("lane")


def test_subjects_are_blocks_with_their_parameters() -> None:
    for subject in counted.SUBJECTS.values():
        BLOCKS[subject.block].parameters(dict(subject.given))


@pytest.mark.slow
@pytest.mark.timeout(1800)  # Yosys' first call compiles it
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * name.startswith(LARGEST)) for name in counted.SUBJECTS],
)
def test_the_committed_cells_are_those_of_the_blocks_as_they_are(name: str) -> None:
    if reason := resources.unavailable_reason():
        pytest.skip(reason)
    assert counted.is_current(counted.committed()[name]), "placerl bench fpga-tables resources --count"
