"""`placerl rtl`: Verilog of the blocks, and parameters that none takes."""

import json
from pathlib import Path

import pytest

from placerl.primitives.fpga.tools.blocks import BLOCKS
from tests.harness.cli.command_line import Placerl, refused


def test_rtl_writes_verilog(placerl: Placerl, tmp_path: Path) -> None:
    pytest.importorskip("amaranth")
    outcome = placerl(
        "rtl", "replay-pipeline", "fanout=2", "levels=2", "leaf_bits=4", "-o", str(tmp_path / "a" / "b")
    )
    assert outcome.status == 0, outcome
    written = [Path(line) for line in outcome.out.splitlines()]
    assert {path.parent for path in written} == {tmp_path / "a" / "b"}
    assert [path.name for path in written] == [
        "replay_pipeline.v",
        "lint.vlt",
        "cocotb_status.py",
        "test_replay_pipeline.py",
        "replay_pipeline_vectors.json",
        "replay_pipeline.core",
        "replay_pipeline.md",
    ]
    text = written[0].read_text()
    assert "module replay_pipeline(" in text
    assert "fanout=2 levels=2 leaf_bits=4" in text.splitlines()[0]


def test_the_first_line_states_the_parameters_as_they_are_given(placerl: Placerl, tmp_path: Path) -> None:
    pytest.importorskip("amaranth")
    outcome = placerl("rtl", "processing-element", "width=4", "--no-bench", "-o", str(tmp_path))
    assert outcome.status == 0, outcome
    first, *_ = (tmp_path / "processing_element.v").read_text().splitlines()
    assert first == "// placerl rtl processing-element width=4 accumulator_width=64 configurable=false"


def test_rtl_refuses_a_folder_that_cannot_be_written_before_it_exports(
    placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verilog = pytest.importorskip("placerl.primitives.fpga.export.verilog")
    monkeypatch.setattr(verilog, "export", lambda *_: pytest.fail("exported"))
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        refused(
            placerl("rtl", "layout-transform", "-o", str(folder)), str(folder), "a folder that can be written"
        )
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-block"], ["BLOCK", "no-such-block", "replay-pipeline"]),
        (["replay-pipelin"], ["BLOCK", "did you mean replay-pipeline?"]),
        (["replay-pipeline", "fannout=2"], ["found 'fannout'", "did you mean fanout?"]),
        (["replay-pipeline", "form=wid"], ["form", "'wid'", "did you mean wide?"]),
        ([], ["BLOCK: found nothing", "replay-pipeline"]),
        (["replay-pipeline", "fanout=4", "fanout=2"], ["fanout: found 4 and 2", "each parameter once"]),
        (["replay-pipeline", "fanout"], ["NAME=VALUE", "found fanout"]),
        (["replay-pipeline", "depth=2"], ["found 'depth'", "fanout, levels"]),
        (["replay-pipeline", "fanout=two"], ["fanout", "found 'two'", "2 to 256"]),
        (["replay-pipeline", "fanout=1"], ["fanout", "found '1'", "2 to 256"]),
        (["replay-pipeline", "fanout=256", "levels=5"], ["leaf_bits", "found 32", "at most 63 bits"]),
        (["replay-pipeline", "form=deep"], ["form", "'deep'", "wide, narrow"]),
        (["gemm-core", "side=0"], ["side", "found '0'", "2 to 64"]),
        (["gemm-core", "configurable=true", "width=7"], ["width", "found 7", "an even number of bits"]),
        (["reduce-unit", "lanes=3"], ["lanes", "found 3", "a power of two"]),
        (["learner-pipeline", "lanes=9"], ["lanes", "found 9", "1 to 8"]),
        (["map-accelerator", "network=cartpol"], ["network", "did you mean cartpole?"]),
        (["map-accelerator", "lanes=1/x"], ["lanes", "found '1/x'", "one for each layer"]),
        (["map-accelerator", "lanes=4", "updates=3"], ["updates", "found 3", "4, 2, 1"]),
        (["map-accelerator", "--device", "u200"], ["--device", "found u200", "with --explored"]),
        (["gemm-core", "--explored", "hopper-ddpg"], ["--explored", "with map-accelerator"]),
        (["replay-pipeline", "fanout=2", "--list"], ["NAME=VALUE: found fanout=2", "nothing with --list"]),
        (["map-accelerator", "--explored", "hopper-ddpg", "--list"], ["--explored", "nothing with --list"]),
        (
            ["map-accelerator", "--explored", "hopper-ddpg", "lanes=4"],
            ["lanes: found 4", "without --explored"],
        ),
        (["map-accelerator", "--explored", "pong-dqn"], ["NETWORK", "a workload whose network is an MLP"]),
        (["map-accelerator", "--explored", "hopper-sac"], ["NETWORK", "found 'hopper-sac'"]),
        (
            ["map-accelerator", "--explored", "1,1,9000"],
            ["--explored", "a network whose learner pipeline fits"],
        ),
    ],
)
def test_rtl_refuses_wrong_parameters(
    placerl: Placerl, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    pytest.importorskip("amaranth")
    refused(placerl("rtl", *arguments, "-o", str(tmp_path / "out")), *words)
    assert not (tmp_path / "out").exists()


def test_rtl_lists_the_blocks(placerl: Placerl, tmp_path: Path) -> None:
    outcome = placerl("rtl", "--list", "--json", "-o", str(tmp_path / "out"))
    assert outcome.status == 0, outcome
    listed = json.loads(outcome.out)["blocks"]
    assert listed == {name: block.description for name, block in BLOCKS.items()}
    assert all(listed.values())
    assert not (tmp_path / "out").exists()


def test_the_parameters_of_a_block_are_listed_as_they_are_given(placerl: Placerl) -> None:
    first, *lines = placerl("rtl", "replay-pipeline", "--list").out.splitlines()
    assert first.startswith("replay-pipeline: ")
    assert [line.split()[0] for line in lines] == [
        f"{name}={value}" for name, value in BLOCKS["replay-pipeline"].defaults.items()
    ]
    listed = json.loads(placerl("rtl", "replay-pipeline", "--list", "--json").out)
    assert listed["parameters"]["fanout"] == {"default": 16, "allowed": "2 to 256"}
