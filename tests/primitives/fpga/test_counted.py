"""What is committed of cells: complete, readable, and of the blocks as they are."""

import pytest

from primitives.fpga import counted, resources
from primitives.fpga.blocks import BLOCKS


def test_every_subject_is_committed_with_cells_that_are_known() -> None:
    assert set(counted.committed()) == set(counted.SUBJECTS), "make fpga-resources COUNT=1"
    for found in counted.committed().values():
        assert found.resources.luts > 0
        assert found.resources.flip_flops > 0


def test_subjects_are_blocks_with_their_parameters() -> None:
    for subject in counted.SUBJECTS.values():
        BLOCKS[subject.block].parameters(dict(subject.given))


@pytest.mark.slow
@pytest.mark.timeout(1800)  # Yosys' first call compiles it
@pytest.mark.parametrize("name", ["processing-element width=32", "layout-transform"])
def test_the_committed_cells_are_those_of_the_blocks_as_they_are(name: str) -> None:
    if reason := resources.unavailable_reason():
        pytest.skip(reason)
    assert counted.is_current(counted.committed()[name]), "make fpga-resources COUNT=1"
