from pathlib import Path

import pytest

from harness import platform_model, what_if, workload
from harness.errors import UserError
from harness.provenance import Provenance

MISSES = {
    # FPGA and GPU are within a quarter of each other, and the paper's own FPGA learner was slower than its peak.
    ("hopper-ddpg", 256): "F-F-F",
    # The CPU's tree is bound by the latency of its memory, of which the paper gives the bandwidth only.
    ("hopper-ddpg", 16384): "G-C-G",
    # Algorithm 3's own traffic, B x E words against 16 x E, puts the storage beside the learner.
    ("pong-dqn", 256): "G-C-G",
}


def test_map_table_5_comes_out_but_for_three_cells_on_the_published_numbers() -> None:
    cells = list(what_if.map_table_5())
    assert len(cells) == 11
    missed = {(cell.workload, cell.batch_size): cell.ours for cell in cells if cell.ours != cell.published}
    assert missed == MISSES


def test_one_cell_of_the_table_can_be_asked_for() -> None:
    (cell,) = what_if.map_table_5("cartpole-ddpg", 32)
    assert (cell.published, cell.ours) == ("F-F-F", "F-F-F")


def test_every_modelled_time_is_the_longest_term_and_names_its_sources() -> None:
    platform = platform_model.load("map-tpds23")
    times = {
        (made.entry.primitive, str(made.entry.target)): made
        for made in what_if.modelled(workload.load("hopper-ddpg"), 256, platform)
    }
    work = what_if.work_of(workload.load("hopper-ddpg"), 256)
    learner = times["learner.step", "torch"]
    assert learner.entry.time_s == pytest.approx(2 * work.macs / 0.04e12)
    assert "MAP Table IV" in learner.formula
    launches = times["learner.step", "torch:cuda"]
    assert launches.entry.time_s == pytest.approx(work.operations * 9.2e-6)
    tree = times["sum_tree.sample", "fpga"]
    assert tree.entry.time_s == pytest.approx((256 / 32 * 16 + 5) / 285e6)
    assert {made.entry.provenance for made in times.values()} == {Provenance.MODELLED}


def test_what_if_rows_are_modelled_and_strategies_that_lack_something_say_so() -> None:
    inputs, rows = what_if.predictions(workload.load("cartpole-ddpg"), 32, platform_model.load("map-tpds23"))
    assert {row.provenance for row in (*inputs, *rows)} == {Provenance.MODELLED}
    chosen = {row.backend: row.device for row in rows if row.details.get("chosen")}
    assert chosen["map-tpds23"].startswith("fpga-")
    assert chosen["pearl24"].startswith("fpga-")
    assert {row.backend for row in rows if row.status == "not_run"} >= {"composed-loop", "pal21"}


@pytest.mark.parametrize(
    ("name", "field"),
    [("pearl24-discrete", "device 'cpu'.peak_tops"), ("fixar21", "device 'cpu'.peak_tops")],
)
def test_a_platform_without_the_numbers_is_refused_with_the_field(name: str, field: str) -> None:
    with pytest.raises(UserError, match=field):
        what_if.predictions(workload.load("cartpole-ddpg"), 32, platform_model.load(name))


def test_a_file_with_two_gpus_is_refused(tmp_path: Path) -> None:
    text = (Path(platform_model.__file__).parent / "platforms" / "pal21.toml").read_text()
    gpu = text[text.index('[[device]]\nkey = "gpu"') :]
    path = tmp_path / "twice.toml"
    path.write_text(
        text + gpu.replace('"gpu"\nkind', '"gpu2"\nkind').replace('"cpu", "gpu"', '"cpu", "gpu2"')
    )
    with pytest.raises(UserError, match="two of kind 'gpu'"):
        what_if.predictions(workload.load("cartpole-ddpg"), 32, platform_model.load(path))
