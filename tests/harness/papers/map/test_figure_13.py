"""Replay that hides behind the learner, and that shares its GPU: each outcome from made-up rows."""

from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from tests.harness.old_form import details_of, replace
from tests.harness.papers.device_rows import on, steps, tree
from tests.harness.papers.map.test_predictions import run
from tests.harness.papers.rows import TOO_FEW, profiled, verdict


def shares(by_size: dict[int, float], device: str = "cuda", **more: str) -> list[Row]:
    """Hopper's learner, which takes 1 ms, and replay operations on MAP's tree that together take that share of it.

    The update alone, which threads do not shorten, takes 0.6 of the share.
    """
    return [
        row
        for size, share in by_size.items()
        for row in (
            profiled("learner.step", 1e-3, size, device=device, backend="torch", **more),
            profiled("learner.step", 1e-9, size, device=device, backend="reference"),
            profiled("replay.gather", 1e-9, size),  # another operation, which does not count
            profiled("sum_tree.update", 1e-9, size),  # on Hopper's tree, which is wider than MAP's
            tree("cpu", "sum_tree.update", size, 1e-9, fanout=16),
            tree("cpu", "sum_tree.sample", size, share * 4e-4),
            tree("cpu", "sum_tree.update", size, share * 6e-4),
        )
    ]


@pytest.mark.parametrize(
    ("by_size", "outcome"),
    [
        ({256: 0.1, 2048: 0.5, 16384: 2.0}, Outcome.IN_KIND),
        ({256: 0.1, 2048: 0.5, 16384: 1.5}, Outcome.CONSISTENT),  # many threads may hide it at 16384
        ({256: 0.1, 2048: 0.5, 16384: 0.7}, Outcome.NOT_REPRODUCED),  # hidden where it should not be
        ({256: 0.1, 2048: 2.0, 16384: 3.0}, Outcome.NOT_REPRODUCED),
        ({256: 0.1, 2048: 1.2, 16384: 1.5}, Outcome.NO_VERDICT),  # many threads may hide it at 2048
        ({256: 0.1, 2048: 0.5, 16384: 1.005}, Outcome.NO_VERDICT),  # the interval holds 1
        ({256: 0.1, 2048: 0.5}, Outcome.NOT_RUN),
    ],
)
def test_replay_hides_at_every_published_size_or_does_not(
    by_size: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("MAP-F13-hidden", tmp_path, *shares(by_size)).finding
    assert found.outcome is outcome
    expected = [part * share for part in (1.0, 0.6) for share in by_size.values()]
    assert [number.value for number in found.ours] == pytest.approx(expected)


def test_a_learner_on_the_cpu_shows_no_crossover(tmp_path: Path) -> None:
    on_cpu = shares({256: 0.1, 2048: 0.5, 16384: 1.5}, device="cpu")
    found = verdict("MAP-F13-hidden", tmp_path, *on_cpu).finding
    assert found.outcome is Outcome.NOT_RUN
    assert "on a CUDA device" in found.needs
    assert len(found.ours) == 3


def test_a_noisy_learner_hides_nothing(tmp_path: Path) -> None:
    rows = shares({256: 0.1, 2048: 0.5, 16384: 2.0}, **TOO_FEW)
    assert verdict("MAP-F13-hidden", tmp_path, *rows).finding.outcome is Outcome.NO_VERDICT


HIDES = {"learner": 10e-3, "sample": 1e-3, "gather": 1e-3, "update": 2e-3}
"""Parts of a training whose replay management hides behind the learner, seconds a gradient step."""


def with_parts(
    gps: float, mapping: str, size: int = 256, parts: dict[str, float] = HIDES, loop: str = "relaxed"
) -> Row:
    return run(gps, size, mapping, details={"mapping": mapping, "loop": loop, "terms_s": parts})


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (70.0, Outcome.REPRODUCED),
        (90.0, Outcome.IN_KIND),
        (100.0, Outcome.NO_VERDICT),  # in one cell the noise hides it
        (120.0, Outcome.NOT_REPRODUCED),  # in one it brings some
    ],
)
def test_sharing_costs_throughput_in_every_cell(second: float, outcome: Outcome, tmp_path: Path) -> None:
    rows = [
        with_parts(gps, mapping, size)
        for size, shared in ((256, 70.0), (512, second))
        for mapping, gps in (
            ("torch:cuda-native-cpu", 100.0),
            ("torch:cuda-flat-cpu", 50.0),  # the faster one counts
            ("torch:cuda-fpga-cpu", 150.0),  # in virtual time
            ("torch:cuda-cupy:cuda-cpu", shared),
            ("torch:cuda-cupy:cuda-cuda", shared / 2),
            ("native-cupy:cuda-cpu", 9.0),
        )
    ]
    rows = [
        replace(row, provenance=Provenance.SIMULATED) if "fpga" in str(details_of(row)) else row
        for row in rows
    ]
    found = verdict("MAP-F13-sharing", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([30.0, 100.0 - second])


@pytest.mark.parametrize(
    ("shared_gps", "outcome"),
    [
        (70.0, Outcome.REPRODUCED),  # MAP loses about 30%
        (74.0, Outcome.REPRODUCED),
        (75.5, Outcome.IN_KIND),  # a loss of 24.5%, whose interval reaches more than a fifth below MAP's
        (77.0, Outcome.IN_KIND),
        (66.5, Outcome.REPRODUCED),
        (64.5, Outcome.IN_KIND),
        (63.0, Outcome.IN_KIND),
        (90.0, Outcome.IN_KIND),
        (120.0, Outcome.NOT_REPRODUCED),
        (100.0, Outcome.NO_VERDICT),
    ],
)
def test_replay_on_the_learner_s_gpu_costs_throughput(
    shared_gps: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        with_parts(100.0, "torch:cuda-native-cpu"),
        run(shared_gps, mapping="torch:cuda-cupy:cuda-cpu"),
    ]
    assert verdict("MAP-F13-sharing", tmp_path, *rows).finding.outcome is outcome
    assert verdict("MAP-F13-sharing", tmp_path / "one", rows[0]).finding.outcome is Outcome.NOT_RUN
    noisy = run(shared_gps, mapping="torch:cuda-cupy:cuda-cpu", **TOO_FEW)
    assert (
        verdict("MAP-F13-sharing", tmp_path / "noisy", rows[0], noisy).finding.outcome is Outcome.NO_VERDICT
    )


@pytest.mark.parametrize(
    ("parts", "loop", "outcome"),
    [
        (HIDES, "relaxed", Outcome.NOT_REPRODUCED),
        (HIDES, "fused", Outcome.NO_VERDICT),  # the two take turns: nothing hides
        (HIDES | {"update": 20e-3}, "relaxed", Outcome.NO_VERDICT),  # MAP's CPU at 16384
        (HIDES | {"gather": 20e-3}, "relaxed", Outcome.NO_VERDICT),
        ({}, "relaxed", Outcome.NO_VERDICT),
    ],
)
def test_a_gain_over_replay_that_limits_training_refutes_nothing(
    parts: dict[str, float], loop: str, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        with_parts(100.0, "torch:cuda-native-cpu", parts=parts, loop=loop),
        with_parts(120.0, "torch:cuda-cupy:cuda-cpu"),
    ]
    found = verdict("MAP-F13-sharing", tmp_path, *rows).finding
    assert found.outcome is outcome
    refuted = int(outcome is Outcome.NOT_REPRODUCED)
    assert f"brings some in 1, beyond the noise. Of these, {refuted} with" in found.explanation


@pytest.mark.parametrize("dropped", ["torch:cuda-flat-cpu", "torch:cuda-flat:cuda-cpu"])
@pytest.mark.parametrize(
    ("among", "loss"),
    [(["here"], 30.0), (["here", "here and simulated"], 30.0), (["here and simulated"], None), ([], None)],
)
def test_a_mapping_that_a_race_dropped_is_not_the_fastest(
    dropped: str, among: list[str], loss: float | None, tmp_path: Path
) -> None:
    """One that is slower than mappings to the simulated FPGA alone went on running."""
    lucky = run(150.0, mapping=dropped)
    rows = [
        run(100.0, mapping="torch:cuda-native-cpu"),
        run(70.0, mapping="torch:cuda-cuda-cpu"),
        replace(lucky, details=dict(details_of(lucky)) | {"clearly_slower_among": among}),
    ]
    found = verdict("MAP-F13-sharing", tmp_path, *rows).finding
    counted = {"torch:cuda-flat-cpu": 100 * (1 - 70 / 150), "torch:cuda-flat:cuda-cpu": -50.0}[dropped]
    assert [number.value for number in found.ours] == pytest.approx([counted if loss is None else loss])


def test_a_dropped_mapping_counts_where_its_placement_has_no_other(tmp_path: Path) -> None:
    """The race drops what costs much, which is what MAP says of sharing the GPU."""
    shared = run(70.0, mapping="torch:cuda-cuda-cpu")
    rows = [
        run(100.0, mapping="torch:cuda-native-cpu"),
        replace(shared, details=dict(details_of(shared)) | {"clearly_slower_among": ["here"]}),
    ]
    found = verdict("MAP-F13-sharing", tmp_path, *rows).finding
    assert (found.outcome, len(found.ours)) == (Outcome.REPRODUCED, 1)


def with_shares(size: int, update_s: float, provenance: Provenance = Provenance.SIMULATED) -> list[Row]:
    """CartPole's step of 1 ms with that provenance, its sampling of 0.2 ms and its update."""
    times = {"learner.step": 1e-3, "sum_tree.sample": 2e-4, "sum_tree.update": update_s}
    rows = [on("fpga", primitive, size, time_s, "cartpole-ddpg") for primitive, time_s in times.items()]
    return [replace(rows[0], provenance=provenance), *rows[1:]]


def on_gpu(by_size: dict[int, float]) -> list[Row]:
    """CartPole's replay on a CUDA device, half sampling and half updating: so much of the FPGA's learner's step."""
    return [
        on("cuda", primitive, size, 0.5e-3 * share, "cartpole-ddpg")
        for size, share in by_size.items()
        for primitive in ("sum_tree.sample", "sum_tree.update")
    ]


HIDDEN, EXPOSED = 5e-4, 9e-4
BOTH_SIDES = {2048: 1.5, 16384: 0.5}


@pytest.mark.parametrize(
    ("below_s", "above_s", "gpu", "outcome"),
    [
        (EXPOSED, HIDDEN, {}, Outcome.IN_KIND),
        (8.5e-4, 7.5e-4, {}, Outcome.IN_KIND),
        (
            HIDDEN,
            HIDDEN,
            BOTH_SIDES,
            Outcome.CONSISTENT,
        ),  # the transition is of the GPU, whose times hold copies
        (HIDDEN, HIDDEN, {}, Outcome.NO_VERDICT),  # hidden at every size
        (HIDDEN, HIDDEN, {2048: 1.5}, Outcome.NO_VERDICT),
        (HIDDEN, HIDDEN, {2048: 0.5, 16384: 0.5}, Outcome.NOT_REPRODUCED),
        (HIDDEN, HIDDEN, {2048: 1.5, 16384: 1.5}, Outcome.NO_VERDICT),  # the GPU's times hold copies
        (HIDDEN, EXPOSED, BOTH_SIDES, Outcome.NOT_REPRODUCED),  # the FPGA has to hide it above
        (EXPOSED, 8.5e-4, {}, Outcome.NOT_REPRODUCED),
    ],
)
def test_cartpole_s_replay_behind_the_learner(
    below_s: float, above_s: float, gpu: dict[int, float], outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*with_shares(2048, below_s), *with_shares(16384, above_s), *on_gpu(gpu)]
    found = verdict("MAP-F13-CartPole", tmp_path, *rows, *steps("cartpole-ddpg")).finding
    assert found.outcome is outcome
    assert len(found.ours) == 4 + 2 * len(gpu)
    assert [number.value for number in found.ours[:4]] == pytest.approx(
        [0.2, 1e3 * below_s, 0.2, 1e3 * above_s]
    )
    assert ("CUDA device" in found.decides) == (outcome is Outcome.NO_VERDICT)


def test_cartpole_s_replay_is_judged_above_the_size(tmp_path: Path) -> None:
    found = verdict("MAP-F13-CartPole", tmp_path, *with_shares(2048, EXPOSED)).finding
    assert found.outcome is Outcome.NOT_RUN
    one_side = verdict("MAP-F13-CartPole", tmp_path / "above", *with_shares(16384, HIDDEN)).finding
    assert one_side.outcome is Outcome.NO_VERDICT, "no size on the other side"


def test_noise_around_the_learner_s_time_leaves_the_gpu_s_transition_open(tmp_path: Path) -> None:
    fpga = [*with_shares(2048, HIDDEN), *with_shares(16384, HIDDEN)]
    noisy = [replace(row, low=row.value / 2, high=row.value * 2) for row in on_gpu({2048: 1.5})]
    rows = [*fpga, *noisy, *on_gpu({16384: 0.5})]
    found = verdict("MAP-F13-CartPole", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "Replay on the GPU: 2048: undecided, 16384: hidden." in found.explanation


@pytest.mark.parametrize(
    ("above_s", "outcome"), [(HIDDEN, Outcome.CONSISTENT), (EXPOSED, Outcome.NO_VERDICT)]
)
def test_simulated_shares_below_the_size_and_modelled_ones_above_agree_at_most(
    above_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*with_shares(2048, EXPOSED), *with_shares(16384, above_s, Provenance.MODELLED)]
    found = verdict("MAP-F13-CartPole", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert "modelled, and so are the shares at: 16384." in found.explanation


@pytest.mark.parametrize(
    ("simulated_s", "modelled_s", "outcome"),
    [
        (HIDDEN, HIDDEN, Outcome.IN_KIND),
        (HIDDEN, EXPOSED, Outcome.NO_VERDICT),  # the modelled share neither holds nor refutes
        (EXPOSED, HIDDEN, Outcome.NOT_REPRODUCED),
        (EXPOSED, EXPOSED, Outcome.NOT_REPRODUCED),
    ],
)
def test_of_the_judged_sizes_only_simulated_shares_refute(
    simulated_s: float, modelled_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        *with_shares(2048, EXPOSED),
        *with_shares(4096, simulated_s),
        *with_shares(16384, modelled_s, Provenance.MODELLED),
    ]
    found = verdict("MAP-F13-CartPole", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert len(found.ours) == 6


def test_a_size_with_one_modelled_operation_is_modelled(tmp_path: Path) -> None:
    sample, update = 1, 2
    for name, at in (("sample", sample), ("update", update)):
        rows = with_shares(16384, EXPOSED)
        rows[at] = replace(rows[at], provenance=Provenance.MODELLED)
        assert verdict("MAP-F13-CartPole", tmp_path / name, *rows).finding.outcome is Outcome.NO_VERDICT


def test_hidden_at_every_size_by_a_formula_refutes_no_transition(tmp_path: Path) -> None:
    rows = [
        *with_shares(2048, HIDDEN, Provenance.MODELLED),
        *with_shares(16384, HIDDEN),
        *on_gpu({2048: 0.5, 16384: 0.5}),
    ]
    assert verdict("MAP-F13-CartPole", tmp_path, *rows).finding.outcome is Outcome.NO_VERDICT
