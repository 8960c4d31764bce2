from pathlib import Path

import yaml

from placerl.primitives.fpga.bench.core_file import Board, core_file


def test_a_block_with_a_bench_has_targets_for_both_simulators() -> None:
    text = core_file("unit", "Does: a thing.", "1.2", ["lint.vlt", "test_unit.py", "unit_vectors.json"])
    head, _, body = text.partition("\n")
    core = yaml.safe_load(body)
    assert head == "CAPI=2:"
    assert (core["name"], core["description"]) == ("placerl:rtl:unit:1.2", "Does: a thing.")
    assert [list(file) for file in core["filesets"]["bench"]["files"]] == [
        ["test_unit.py"],
        ["unit_vectors.json"],
    ]
    assert {name: target["toplevel"] for name, target in core["targets"].items()} == dict.fromkeys(
        ("default", "lint", "sim", "sim_verilator"), "unit"
    )


def test_a_block_without_a_bench_has_no_simulation() -> None:
    core = yaml.safe_load(core_file("unit", "A thing.", "1.2", ["lint.vlt"]).partition("\n")[2])
    assert set(core["targets"]) == {"default", "lint"}


def test_a_board_has_a_target_that_builds_its_bitstream(tmp_path: Path) -> None:
    (tmp_path / "top.v").write_text("module top; endmodule")
    (tmp_path / "board.lpf").write_text("BLOCK RESETPATHS;")
    board = Board("board", "top", tmp_path, ("--85k", "--speed", "6"))
    core = yaml.safe_load(core_file("unit", "A thing.", "1.2", [*board.files], board).partition("\n")[2])
    target = core["targets"]["board"]
    assert (target["toplevel"], target["flow"]) == ("top", "trellis")
    assert target["flow_options"]["nextpnr_options"] == ["--85k", "--speed", "6"]
    assert set(board.files) == {name for file in core["filesets"]["board"]["files"] for name in file}
