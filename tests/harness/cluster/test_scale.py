"""The simulation of many nodes: what it must tell where the answer is known, and the modelled asymptotes beside it."""

import math
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("simpy", reason="needs the extra 'cluster'")

from placerl.harness.cli.bench import scale_bench as command
from placerl.harness.cluster import scale
from placerl.harness.cluster.scale import (
    FEWEST_CYCLES,
    SPREAD,
    Service,
    saturation,
    simulate_cells,
    simulate_training,
)
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance

SERVICE = Service(
    cell_s=10.0,
    writer_s=0.01,
    collect_s=0.5,
    collected=50,
    insert_s=0.002,
    sample_s=0.004,
    update_s=0.002,
    call_s=0.0005,
    learn_s=0.1,
    batches=16,
    weights_bytes=1e6,
    link_bytes_per_s=1e9,
)
FREE = replace(SERVICE, weights_bytes=1.0)


def test_one_machine_does_a_cell_after_the_other():
    found = simulate_cells(SERVICE, 1)
    assert found.rates_per_s["cells"] == pytest.approx(1 / 10.01, rel=0.01)
    assert found.busy["writer"] == pytest.approx(0.01 / 10.01, rel=0.05)


def test_a_machine_more_is_as_good_as_the_first_until_the_writer_is_busy():
    few = simulate_cells(SERVICE, 100)
    assert few.rates_per_s["cells"] == pytest.approx(100 / 10.01, rel=0.02)
    many = simulate_cells(SERVICE, 3000)  # saturation: 1001
    assert many.rates_per_s["cells"] == pytest.approx(1 / SERVICE.writer_s, rel=0.02)
    assert many.busy["writer"] > 0.99


def test_one_actor_and_an_idle_network():
    found = simulate_training(FREE, 1, 4)
    assert found.rates_per_s["environment_steps"] == pytest.approx(50 / 0.502, rel=0.02)
    assert found.rates_per_s["gradient_steps"] == pytest.approx(16 / 0.1, rel=0.02)
    assert found.busy["learner"] > 0.98


def test_shards_saturate_and_more_of_them_help():
    limit = saturation(FREE, 1)["shards"]
    one = simulate_training(FREE, round(4 * limit), 1)
    assert one.busy["shards"] > 0.98
    four = simulate_training(FREE, round(4 * limit), 8)
    assert four.busy["shards"] < 0.8
    assert four.rates_per_s["environment_steps"] > 2 * one.rates_per_s["environment_steps"]


def test_the_learner_visits_every_shard_for_its_part_of_each_call():
    for shards in (1, 4):
        found = simulate_training(FREE, 1, shards)
        # Their totals; beyond Ray's share 3.5 ms for the items of a sampling, and 1.5 ms for those of an update.
        visits_s = 3 * 0.0005 + (0.0035 + 0.0015) / shards
        expected = visits_s / FREE.learn_s + FREE.insert_s / shards / (FREE.collect_s + FREE.insert_s)
        assert found.busy["shards"] == pytest.approx(expected, rel=0.05)


def test_the_broadcast_saturates_where_every_actor_asks_the_learner_and_not_in_a_tree():
    limit = saturation(SERVICE, 64)["link"]
    assert limit == pytest.approx(0.503 / 0.001)
    actors = round(3 * limit)
    direct = simulate_training(SERVICE, actors, 64)
    assert direct.busy["link"] > 0.98
    assert direct.rates_per_s["environment_steps"] == pytest.approx(50 / 0.001, rel=0.05)
    tree = simulate_training(SERVICE, actors, 64, tree=True)
    assert tree.busy["link"] < 0.2
    assert tree.rates_per_s["environment_steps"] > 2 * direct.rates_per_s["environment_steps"]


times_s = st.floats(1e-3, 0.3)


@settings(max_examples=15)
@given(
    own_s=times_s,
    part_s=times_s,
    nodes=st.integers(1, 60),
    shards=st.integers(1, 5),
    spread=st.floats(0, SPREAD),
    seed=st.integers(0, 9),
)
# Its twelve calls are 9% shorter than their mean, as chance has it.
@example(own_s=0.1015625, part_s=0.001, nodes=35, shards=2, spread=SPREAD, seed=6)
@example(own_s=0.25, part_s=0.001, nodes=60, shards=5, spread=0.0, seed=0)  # all in step
@example(
    own_s=0.001, part_s=0.3, nodes=60, shards=1, spread=SPREAD, seed=0
)  # the learner waits in a long queue
def test_no_part_does_more_than_it_can_and_no_node_more_than_alone(
    own_s, part_s, nodes, shards, spread, seed
):
    """Bounds that hold for whatever is drawn: every service takes at least 1 - spread of its mean.

    A rate is n / T, from one end of what it counts to the n-th after it. What serves one at a time began all n within
    T: T is at least n services long. Of k that serve side by side each had begun one before: n <= k (T / service + 1),
    so that n / T <= k / service / (1 - k / n). Nodes are k such parts; and as a node is counted once it has also
    fetched weights, each may have left a shard before.
    """
    service = replace(SERVICE, cell_s=own_s, writer_s=part_s, collect_s=own_s, insert_s=part_s)
    least, counted = (1 - spread) * (1 - 1e-9), FEWEST_CYCLES * 2 // 3
    alone_per_s = nodes / (own_s + part_s) / (1 - nodes / counted) / least
    with mock.patch.object(scale, "SPREAD", spread):
        cells = simulate_cells(service, nodes, seed=seed)
        training = simulate_training(service, nodes, shards, seed=seed)
        assert simulate_training(service, nodes, shards, seed=seed) == training
    assert 0 < cells.rates_per_s["cells"] <= min(1 / part_s / least, alone_per_s)
    collections_per_s = training.rates_per_s["environment_steps"] / service.collected
    shards_per_s = shards / part_s / (1 - (shards + nodes) / counted) / least
    assert 0 < collections_per_s <= min(shards_per_s, alone_per_s)
    assert 0 < training.rates_per_s["gradient_steps"] <= service.batches / service.learn_s / least
    for share in (*cells.busy.values(), *training.busy.values()):
        assert 0 <= share <= 1 + 1e-9


def test_rows_table_and_plot_say_what_is_simulated_and_what_is_modelled(tmp_path):
    rows = command.simulate(SERVICE, (10, 20), (1, 2), silent)
    kinds = {row.quantity: row.provenance for row in rows}
    assert kinds.pop("saturating_nodes") is Provenance.MODELLED
    assert set(kinds.values()) == {Provenance.SIMULATED}
    assert all(math.isfinite(row.value) for row in rows)
    assert all(row.service["writer_s"] == SERVICE.writer_s for row in rows)
    text = command.table(rows)
    for said in ("writer_s: 0.01", "| 20 |", "(modelled)", "| writer | any | 1,001 |"):
        assert said in text
    command.plot(rows, tmp_path)
    assert (tmp_path / "scale.svg").stat().st_size > 1000
