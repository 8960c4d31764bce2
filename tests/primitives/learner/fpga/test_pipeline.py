"""MAP's learner pipeline for a gradient step: its design, its passes, and their cycles beside the formula."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from placerl.primitives.algorithms import Algorithm, create
from placerl.primitives.algorithms.networks import parameter_count
from placerl.primitives.fpga.cycles.learner import pipeline_cycles, stage_count, update_cycles
from placerl.primitives.fpga.cycles.replay import level_timing
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner.fpga import pipeline, pipeline_resources
from placerl.primitives.learner.fpga.pipeline import balanced, best_design, designs, least_block_rams, refusal
from placerl.primitives.learner.fpga.pipeline_resources import available, dsps_alone

U200 = catalogue.device("u200")


def ddpg(hidden: tuple[int, ...] = (256, 256)) -> Algorithm:
    return create("ddpg", observation_shape=(11,), action_size=3, network={"hidden": hidden})


def dqn(**options: Any) -> Algorithm:
    return create("dqn", observation_shape=(4,), action_size=2, network={"hidden": (64, 64)}, **options)


def test_the_passes_of_ddpg_are_those_of_its_equations() -> None:
    design = best_design(ddpg(), 256, U200)
    critic, actor = design.passes["critic"], design.passes["actor"]
    assert [layer.inputs for layer in critic.layers] == [14, 256, 256]
    assert len(critic.target) == 6  # target actor and target critic
    assert stage_count(critic) == 6 + 3 * 3
    assert [layer.outputs for layer in actor.trained_layers] == [256, 256, 3]
    assert len(actor.layers) == 6  # its errors come through the critic
    assert stage_count(actor) == 6 + 1 + 5 + 3


@pytest.mark.parametrize("batch_size", [32, 256, 2048])
@pytest.mark.parametrize("algorithm", [ddpg(), ddpg((8, 8)), dqn()], ids=["large", "small", "dqn"])
def test_a_design_stays_within_what_the_replay_leaves(algorithm: Algorithm, batch_size: int) -> None:
    design = best_design(algorithm, batch_size, U200)
    limit = available(U200)
    assert limit.dsps == U200.dsps * 2 // 3
    assert design.resources.fits(limit)
    assert design.pipelines * design.samples == batch_size
    free = best_design(algorithm, batch_size, U200, dsps_alone(U200))
    assert free.formula_cycles <= design.formula_cycles, "fewer limits are never slower"


def test_dsps_bound_one_pipeline_of_wide_layers_and_flip_flops_two() -> None:
    limit = available(U200)
    assert best_design(ddpg(), 256, U200).resources.scarcest(limit) == "dsps"
    assert best_design(ddpg(), 256, U200, pipelines=2).resources.scarcest(limit) == "flip_flops"
    assert not best_design(ddpg(), 256, U200, dsps_alone(U200), pipelines=4).resources.fits(limit)


def test_wide_layers_update_words_in_parts_because_adam_is_large() -> None:
    hidden = best_design(ddpg(), 256, U200).networks["critic"][1]
    assert hidden.parts > 1
    (single,) = (layer for layer in balanced((255, 255), 255 * 256, 255 * 256))
    assert (single.lanes, single.parts) == (1, 1)
    for most in (1028, 2056, 4112, 10**6):
        (layer,) = balanced((256, 256), 1028, most)
        assert layer.lanes == 64, "divisible by the parts without more lanes"
        assert layer.update_words <= most
        assert layer.updates == 1 or 2 * layer.update_words > most


def test_more_of_every_resource_is_never_slower() -> None:
    shares = [
        replace(available(U200), **{name: n // part for name, n in vars(available(U200)).items()})
        for part in (4, 2, 1)
    ]
    cycles = [designs({"q": (4, 64, 64, 2)}, 256, limit)[0].formula_cycles for limit in shares]
    assert cycles == sorted(cycles, reverse=True)
    assert len(set(cycles)) == 3
    with pytest.raises(ValueError, match="allowed: one with more resources for ddpg"):
        best_design(ddpg(), 256, catalogue.FpgaDevice("small", 1, 1, 30, 1, 1, 0, 1, ""))


def test_the_designs_are_the_fastest_of_each_dp() -> None:
    found = designs({"q": (4, 64, 64, 2)}, 24, available(U200))
    assert {design.pipelines for design in found} == {1, 2, 4, 8}, "powers of two that divide the batch"
    cycles = [design.formula_cycles for design in found]
    assert cycles == sorted(cycles)
    assert designs({"q": (4, 64, 64, 2)}, 24, replace(available(U200), luts=1)) == []


def test_a_number_of_pipelines_has_its_fastest_design() -> None:
    algorithm, board = dqn(), U200
    found = {count: best_design(algorithm, 32, board, pipelines=count) for count in (1, 2, 4, 8, 16)}
    for count, design in found.items():
        assert (design.pipelines, design.samples) == (count, 32 // count)
        assert design.resources.fits(available(board))
    assert best_design(algorithm, 32, board) == min(found.values(), key=lambda one: one.formula_cycles)


def test_a_number_of_pipelines_that_does_not_fit_is_refused_with_the_scarce_resources() -> None:
    with pytest.raises(
        ValueError, match=r"pipelines: found 3; allowed: 1, 2, 4, 8, which divide a batch of 24"
    ):
        best_design(dqn(), 24, U200, pipelines=3)
    limit = available(U200)
    one = pipeline.smallest_design({"q": (4, 256, 2)}, 32, 1).resources
    for name, said in (("dsps", "DSPs"), ("luts", "LUTs"), ("flip_flops", "flip-flops")):
        least = replace(limit, **{name: getattr(one, name)})
        wide = create("dqn", observation_shape=(4,), action_size=2, network={"hidden": (256,)})
        with pytest.raises(ValueError, match=f"pipelines: found 2; allowed: 1 on the .*{said} of") as refused:
            best_design(wide, 32, U200, least, pipelines=2)
        assert str(refused.value).count(" of ") == 1, "no other resource is too small"
        assert best_design(wide, 32, U200, least).pipelines == 1
    with pytest.raises(ValueError, match=r"a pipeline would need .* LUTs of 1"):
        best_design(dqn(), 32, U200, replace(limit, luts=1), pipelines=2)


def test_balanced_layers_take_no_longer_than_asked() -> None:
    for slowest in (257, 300, 1000, 65_792, 10**6):
        layers = balanced((11, 256, 256, 3), slowest)
        assert max(layer.words for layer in layers) <= slowest
        for layer in layers:
            assert layer.lanes == 1 or -(-layer.outputs // (layer.lanes - 1)) * (layer.inputs + 1) > slowest


def test_double_dqn_takes_units_but_no_cycles_more() -> None:
    plain, double = (
        pipeline.PipelineDesign({"q": balanced((4, 8, 2), 20)}, double, 1, 32) for double in (False, True)
    )
    assert double.resources.dsps > plain.resources.dsps
    assert double.formula_cycles == plain.formula_cycles


@pytest.mark.parametrize("algorithm", [dqn, ddpg])
def test_the_whole_accelerators_step_contains_the_learners(algorithm: Callable[[], Algorithm]) -> None:
    pytest.importorskip("amaranth")
    design = best_design(algorithm(), 32, U200)
    learner = sum(pipeline_cycles(work, samples=design.samples) for work in design.passes.values())
    whole = pipeline.accelerator_cycles(design, 32, 1000, 16)
    assert whole is not None
    assert whole > learner + 32
    deeper = pipeline.accelerator_cycles(design, 32, 5000, 16)  # the tree has a level more
    assert deeper == whole + level_timing(fanout=16, narrow=False, samples=True).latency
    assert pipeline.accelerator_cycles(design, 32, 1000, 12) is None


def test_what_map_has_no_pipeline_for_is_refused() -> None:
    assert refusal(ddpg()) == refusal(dqn()) == ""
    sac = create("sac", observation_shape=(3,), action_size=1)
    assert "dqn, ddpg" in refusal(sac)
    with pytest.raises(ValueError, match="algorithm: found sac; needs a learner pipeline for sac"):
        best_design(sac, 32, U200)


@pytest.mark.parametrize(("double", "bits"), [(False, 256), (True, 288)])
def test_the_weights_of_pong_s_convolutions_do_not_fit(double: bool, bits: int) -> None:
    """Each of 1.69 million weights: three or four copies of 32 bits, a sum of 64 and a state of 96."""
    pong = create(
        "dqn",
        observation_shape=(4, 84, 84),
        action_size=6,
        network={"kind": "nature_cnn"},
        hyperparameters={"double": double},
    )
    (network,) = pong.networks.values()
    assert least_block_rams(pong) == ceil(parameter_count(network) * bits / 36_864)
    assert least_block_rams(pong) > available(U200).block_rams
    assert f"{least_block_rams(pong):,} block RAMs or more, of {available(U200).block_rams:,}" in refusal(
        pong
    )


def test_no_design_takes_fewer_block_rams_than_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_resources, "LARGEST_LUT_RAM", 0)  # every memory in block RAMs
    for algorithm in (ddpg(), dqn(), dqn(hyperparameters={"double": True})):
        sizes = {name: pipeline._sizes(network) for name, network in algorithm.networks.items()}
        double = bool(getattr(algorithm.hyperparameters, "double", False))
        networks = {name: balanced(network, 300) for name, network in sizes.items()}
        design = pipeline.PipelineDesign(networks, double, 1, 32)
        assert design.resources.block_rams >= least_block_rams(algorithm)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
def test_a_step_is_simulated_and_explained_to_the_cycle() -> None:
    pytest.importorskip("amaranth")
    from placerl.primitives.fpga.learner_pipeline.update_unit import target_latency

    step = pipeline.gradient_step(ddpg((8, 8)), 32, U200)
    for name, work in step.design.passes.items():
        update = update_cycles(work, adam_latency=target_latency())
        assert step.pass_cycles[name] == pipeline_cycles(work, samples=step.design.samples) + update
    assert sum(step.reasons.values()) == step.difference_cycles
    assert step.cycles == step.design.formula_cycles + step.difference_cycles
