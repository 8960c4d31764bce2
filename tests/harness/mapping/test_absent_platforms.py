import inspect
import re
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.cli import map_command
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.toml_models import check
from placerl.harness.mapping import absent_platforms, roofline
from placerl.harness.mapping.predict import slow_link
from placerl.harness.mapping.roofline import Modelled, Refused
from placerl.harness.platforms import PlatformFile
from placerl.harness.workloads import override
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import replay_design

CARTPOLE, MAP = workloads.load("cartpole-ddpg"), platforms.load("map-tpds23")
MISSES = {
    ("hopper-ddpg", 16384): ("G-C-G", "replay management C 471.3 us, printed F 5.5 us"),
    ("pong-dqn", 256): ("G-C-G", "storage G, printed C"),
}


def test_map_table_5_comes_out_but_for_two_cells_on_the_published_numbers() -> None:
    cells = list(absent_platforms.map_table_5())
    assert len(cells) == 11
    missed = {(cell.workload, cell.batch_size): cell for cell in cells if cell.ours != cell.published}
    assert {place: cell.ours for place, cell in missed.items()} == {
        p: ours for p, (ours, _) in MISSES.items()
    }
    for place, cell in missed.items():
        assert cell.reason.startswith(MISSES[place][1])
    assert not any(cell.reason for cell in cells if cell.ours == cell.published)


@pytest.mark.parametrize("dispatch_us", [0.04, 100.0])
def test_table_5_hangs_neither_on_the_dispatch_nor_on_the_dsps(
    monkeypatch: pytest.MonkeyPatch, dispatch_us: float
) -> None:
    """Of MAP's learner Table VI gives 2,557 DSPs, fewer than those of two dies."""
    platform = platforms.load("map-tpds23")
    cpu = platform.find("cpu")
    assert cpu.dispatch_us is not None
    other = cpu.model_copy(update={"dispatch_us": cpu.dispatch_us.model_copy(update={"value": dispatch_us})})
    devices = tuple(other if device.key == "cpu" else device for device in platform.device)
    monkeypatch.setattr(absent_platforms, "load", lambda _: platform.model_copy(update={"device": devices}))
    whole = absent_platforms.dsps_alone
    monkeypatch.setattr(absent_platforms, "dsps_alone", lambda device: replace(whole(device), dsps=2557))
    missed = [(c.workload, c.batch_size) for c in absent_platforms.map_table_5() if c.ours != c.published]
    assert missed == list(MISSES)


def test_one_cell_of_the_table_can_be_asked_for() -> None:
    (cell,) = absent_platforms.map_table_5("cartpole-ddpg", 32)
    assert (cell.published, cell.ours) == ("F-F-F", "F-F-F")


def test_table_5_hangs_on_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 3 counts the words that go over links; the report says that no latency changes its mappings."""
    before = [cell.ours for cell in absent_platforms.map_table_5()]
    slow = platforms.load("map-tpds23").with_latency(slow_link())
    links = tuple(
        link.model_copy(update={"gb_s": link.gb_s.model_copy(update={"value": 1e-3})}) for link in slow.link
    )
    assert links
    monkeypatch.setattr(absent_platforms, "load", lambda _: slow.model_copy(update={"link": links}))
    assert [cell.ours for cell in absent_platforms.map_table_5()] == before


def test_the_explored_sub_trees_of_map_s_board_give_the_same_mappings() -> None:
    cells = list(absent_platforms.map_table_5())
    for cell in cells:
        capacity = workloads.load(cell.workload).replay.capacity
        explored = replay_design(cell.batch_size, capacity, 2, catalogue.device("u200"))
        assert cell.banks == explored.banks
    assert [cell.with_banks for cell in cells] == [cell.ours for cell in cells]


def test_with_one_sub_tree_the_mappings_would_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    explored = absent_platforms.replay_design
    monkeypatch.setattr(absent_platforms, "replay_design", lambda *sizes: replace(explored(*sizes), banks=1))
    (cell,) = absent_platforms.map_table_5("cartpole-ddpg", 16384)
    assert (cell.ours, cell.banks, cell.with_banks) == ("F-F-F", 1, "F-G-F")


def timed(pieces: Iterable[Modelled | Refused]) -> list[Modelled]:
    return [piece for piece in pieces if isinstance(piece, Modelled)]


def test_every_modelled_time_is_the_longest_term_and_names_its_sources() -> None:
    platform = platforms.load("map-tpds23")
    times = {
        (made.entry.primitive, str(made.entry.target)): made
        for made in timed(absent_platforms.modelled(workloads.load("hopper-ddpg"), 256, platform))
    }
    work = absent_platforms.work_of(workloads.load("hopper-ddpg"), 256)
    learner = times["learner.step", "torch"]
    assert learner.entry.time_s == pytest.approx(2 * work.macs / 0.04e12)
    assert "MAP Table IV" in learner.formula
    pipelined = times["learner.step", "fpga"]
    assert pipelined.entry.time_s == pytest.approx(317_117 / 285e6)
    assert pipelined.formula.startswith("317,117 cycles, DP = 1, PI = 256 (MAP VI-A2) / 285 MHz")
    launches = times["learner.step", "torch:cuda"]
    assert launches.entry.time_s == pytest.approx(work.operations * 9.2e-6)
    tree = times["sum_tree.sample", "fpga"]
    assert tree.entry.time_s == pytest.approx((256 / 32 * 16 + 5) / 285e6)
    assert {made.entry.provenance for made in times.values()} == {Provenance.MODELLED}


def fpga_learner(**numbers: float) -> Modelled:
    """CartPole's step at batch size 32 on MAP's FPGA by its roofline, with other numbers by field."""
    platform = platforms.load("map-tpds23")
    roofs = [device.model_copy(update={"learner_pipeline": None}) for device in platform.device]
    platform = platform.model_copy(update={"device": tuple(roofs)})
    fpga = platform.find("fpga")
    other = {name: getattr(fpga, name).model_copy(update={"value": value}) for name, value in numbers.items()}
    devices = tuple(d.model_copy(update=other) if d.key == "fpga" else d for d in platform.device)
    times = timed(absent_platforms.modelled(CARTPOLE, 32, platform.model_copy(update={"device": devices})))
    (found,) = (m for m in times if (m.entry.primitive, str(m.entry.target)) == ("learner.step", "fpga"))
    return found


def test_a_peak_of_another_type_is_marked() -> None:
    assert "0.68 TOPS of int32 in place of fp32 (published: MAP Table IV)" in fpga_learner().formula


def test_an_fpga_learner_waits_for_its_batch_and_for_a_state_that_does_not_fit_on_chip() -> None:
    work = absent_platforms.work_of(CARTPOLE, 32)
    fits = fpga_learner(peak_tops=1e6)
    assert fits.entry.time_s == pytest.approx(work.batch_bytes / 77e9)
    spills = fpga_learner(peak_tops=1e6, last_level_cache_mb=1e-4)
    assert spills.entry.time_s == pytest.approx((work.batch_bytes + 2 * work.state_bytes) / 77e9)


def test_what_if_rows_are_modelled_and_strategies_that_lack_something_say_so() -> None:
    inputs, rows = absent_platforms.predictions(
        workloads.load("cartpole-ddpg"), 32, platforms.load("map-tpds23")
    )
    assert {row.provenance for row in (*inputs, *rows)} == {Provenance.MODELLED}
    chosen = {row.who: row.where for row in rows if row.chosen}
    assert chosen["map-tpds23"].startswith("fpga-")
    assert chosen["pearl24"].startswith("fpga-")
    assert {row.who for row in rows if row.status == "not_run"} >= {"primitive-sum", "pal21"}
    assert chosen["composed-loop"].startswith("fpga-")


@pytest.mark.parametrize(
    ("name", "field"),
    [("pearl24-discrete", "device 'cpu'.peak_tops"), ("fixar21", "device 'cpu'.peak_tops")],
)
def test_a_platform_without_the_numbers_is_refused_with_the_field(name: str, field: str) -> None:
    with pytest.raises(UserError, match=field):
        absent_platforms.predictions(workloads.load("cartpole-ddpg"), 32, platforms.load(name))


def test_an_algorithm_without_a_replay_has_no_terms_of_one() -> None:
    """PPO learns from its own latest samples: no sum tree and no storage belong to it (PPO 2.1)."""
    ppo = workloads.load("hopper-ppo")
    inputs, rows = absent_platforms.predictions(ppo, 512, platforms.load("map-tpds23"))
    assert {row.primitive for row in inputs} == {"learner.step"}
    assert not [row for row in rows if row.value is not None]


@pytest.mark.parametrize("value", ["1e-6", "1e9"])
def test_predictions_at_the_bounds_of_a_platform_are_finite(tmp_path: Path, value: str) -> None:
    text = Path(platforms.__file__).with_name("map-tpds23.toml").read_text()
    path = tmp_path / "extreme.toml"
    # Counts have bounds of their own.
    lines = [
        line
        if line.startswith(("cores", "tree_pipelines"))
        else re.sub(r"value = [\d.]+", f"value = {value}", line)
        for line in text.splitlines()
    ]
    path.write_text("\n".join(lines))
    _, rows = absent_platforms.predictions(CARTPOLE, 32, platforms.load(path))
    assert all(row.value > 0 for row in rows if row.value is not None)
    assert any(row.value for row in rows)


def test_the_platforms_that_are_offered_can_be_modelled() -> None:
    offered = roofline.platforms()
    assert {"this-machine", "map-tpds23", "pal21"} <= set(offered)
    for name in platforms.names()[1:]:
        try:
            list(absent_platforms.modelled(CARTPOLE, 32, platforms.load(name)))
            suffices = True
        except UserError:
            suffices = False
        assert (name in offered) == suffices


def test_an_fpga_that_cannot_hold_the_networks_keeps_the_replay_and_says_what_it_lacks() -> None:
    wide = override(CARTPOLE, "network.hidden", [5000, 8], "the test")
    rows = {row.primitive: row for row in absent_platforms.times(wide, 32, MAP) if row.device == "fpga"}
    assert re.match(r"needs a larger device: .*5000; allowed: 1 to 4096", rows.pop("learner.step").reason)
    assert rows.keys() > {"sum_tree.sample", "sum_tree.update"}
    assert all(row.value for row in rows.values())
    predicted = absent_platforms.predictions(wide, 32, MAP)[1]
    assert any("-fpga-" in row.mapping for row in predicted)
    assert not any(row.mapping.startswith("fpga") for row in predicted)


def test_the_help_of_map_offers_no_platform_that_map_refuses() -> None:
    (option,) = inspect.signature(map_command.map_command).parameters["platform_name"].annotation.__metadata__
    assert "map-tpds23" in option.help
    assert "fixar21" not in option.help


def test_a_file_with_two_gpus_is_refused(tmp_path: Path) -> None:
    text = Path(platforms.__file__).with_name("pal21.toml").read_text()
    gpu = text[text.index('[[device]]\nkey = "gpu"') :]
    path = tmp_path / "twice.toml"
    path.write_text(
        text + gpu.replace('"gpu"\nkind', '"gpu2"\nkind').replace('"cpu", "gpu"', '"cpu", "gpu2"')
    )
    with pytest.raises(UserError, match="two of kind 'gpu'"):
        absent_platforms.predictions(workloads.load("cartpole-ddpg"), 32, platforms.load(path))


def with_own_fpga(**numbers: float | None) -> PlatformFile:
    """MAP's platform with the FPGA of docs/files.md in place of its U200, with other numbers by field, or without."""
    page = (Path(__file__).parents[3] / "docs" / "files.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    fpga = tomllib.loads(block)["device"][0]
    for name, value in numbers.items():
        fpga[name] = {"value": value, "provenance": "modelled", "source": "the test"}
        if value is None:
            del fpga[name]
    file = Path(platforms.__file__).with_name("map-tpds23.toml")
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    tables["device"] = [fpga if one["key"] == "fpga" else one for one in tables["device"]]
    return check(PlatformFile, tables, "zynq.toml")


def test_an_fpga_of_one_s_own_bounds_learner_and_replay() -> None:
    small = override(CARTPOLE, "network.hidden", [16, 16], "the test")
    small = override(small, "replay.capacity", 4096, "the test")

    def times(platform: PlatformFile) -> dict[str, Modelled]:
        every = timed(absent_platforms.modelled(small, 32, platform))
        return {m.entry.primitive: m for m in every if m.entry.target.device == "fpga"}

    own = times(with_own_fpga())
    assert "(MAP VI-A2) / 100 MHz (modelled: assumed)" in own["learner.step"].formula
    assert "cycles / 100 MHz" in own["sum_tree.sample"].formula
    more = times(with_own_fpga(dsps=9_000, luts=10**6, flip_flops=2 * 10**6, block_rams=2_000))
    assert more["learner.step"].entry.time_s < own["learner.step"].entry.time_s
    assert more["sum_tree.sample"].entry.time_s <= own["sum_tree.sample"].entry.time_s
    fewer = times(with_own_fpga(luts=50_000))
    assert "learner.step" not in fewer
    assert fewer["sum_tree.sample"].entry.time_s >= own["sum_tree.sample"].entry.time_s
    assert not times(with_own_fpga(luts=1_000)).keys() & {"learner.step", "sum_tree.sample"}


def test_an_own_fpga_without_a_peak_has_no_learner_that_map_s_pipelines_do_not_run() -> None:
    rows = absent_platforms.times(workloads.load("pong-dqn"), 32, with_own_fpga())
    (step,) = (row for row in rows if row.primitive == "learner.step" and row.device == "fpga")
    assert re.match(r"needs tensor units for convolutions .*, or peak_tops", step.reason)


def test_an_fpga_states_all_of_its_resources_or_none() -> None:
    with pytest.raises(
        UserError, match=r"luts: found .*; allowed: luts, flip_flops, dsps, block_rams together"
    ):
        with_own_fpga(dsps=None)
