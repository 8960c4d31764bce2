"""Checks MAP's Tables III and VII and its section IV-C4 by arithmetic on the printed numbers."""

import math

import pandas as pd

from harness.core.provenance import Provenance
from harness.core.suites import Suite
from harness.papers.base import Finding, Outcome, among_themselves
from harness.papers.evidence import mapping_of, number, records, select
from harness.papers.number import Number, from_cell, from_text, ratio

FPGA_AND_GPU = "a CUDA device and FPGA primitives (simulated)"
RLLIB_BESIDE = f"the baseline RLlib beside MAP's mappings, {FPGA_AND_GPU}"
NEEDS_WATTS = (
    "power counters that can be read (RAPL of the processor, NVML of a CUDA device; a simulated FPGA has none), and "
    "RLlib's watts beside them: runs read the counters, comparisons with RLlib do not"
)
BYTES_A_NODE = 4  # a priority of 32 bits


def _count(quantity: str, value: int, source: str) -> Number:
    return Number(quantity, value, "count", Provenance.MODELLED, source)


def table_3(row: str, state: int, action: int, hidden: int) -> Finding:
    """Check MAP Table III: the column MACs equals the multiply-accumulates of the row's own multi-layer perceptron.

    Args:
        row: heading of the row in the table.
        state, action: sizes of the state and of the action.
        hidden: size of each of the two hidden layers.
    """
    from primitives.algorithms.networks import MLP, forward_macs, parameter_count

    published = from_cell("map_table_3", row, "MACs")
    actor = MLP((state, hidden, hidden, action))
    critic = MLP((state + action, hidden, hidden, 1))
    wider = MLP((state + action + 1, hidden, hidden, 1))
    source = "exact count, primitives.algorithms.networks"
    ours = (
        _count("actor, MACs", forward_macs(actor), source),
        _count("critic, MACs", forward_macs(critic), source),
        _count("critic, parameters", parameter_count(critic), source),
        _count("critic with one input more, parameters", parameter_count(wider), source),
    )
    # Three digits are printed.
    tolerance = 0.5 * 10.0 ** (math.floor(math.log10(published.value)) - 2)
    if any(abs(n.value - published.value) <= tolerance for n in ours[:2]):
        return Finding(Outcome.CONSISTENT, ours, "The count is that of the network's forward pass.")
    explanation = "Neither network of this row has that many multiply-accumulates."
    if abs(ours[3].value - published.value) <= tolerance:
        explanation += (
            " The number is the parameter count, biases included, of a critic with |S| + |A| + 1 inputs: right, if the "
            "column counts a bias as one multiply-accumulate and the critic has an input that the table leaves out."
        )
    return Finding(Outcome.NO_VERDICT, ours, f"{explanation} The paper does not say how it counts.")


def table_3_pong(_: pd.DataFrame) -> Finding:
    """Check MAP Table III, row Pong: the column MACs, 18.8M, equals the count of the network in MAP's reference [14].

    "ConvNet in [14]" can mean two networks, those of Mnih et al. 2013 and 2015; both are counted.
    """
    from primitives.algorithms.networks import NatureCNN, forward_macs

    published = from_cell("map_table_3", "Pong", "MACs")
    actions = int(from_cell("map_table_3", "Pong", "action size").value)
    earlier = NatureCNN(head=actions, convolutions=((16, 8, 4), (32, 4, 2)), hidden=256)
    later = NatureCNN(head=actions)
    source = "exact count, primitives.algorithms.networks"
    ours = (
        _count("network of Mnih et al. 2013 (MAP's [14]), MACs", forward_macs(earlier), source),
        _count("network of Mnih et al. 2015, MACs", forward_macs(later), source),
        _count("network of Mnih et al. 2015, operations (2 a MAC)", 2 * forward_macs(later), source),
    )
    gaps = {n.quantity: abs(n.value / published.value - 1) for n in ours}
    nearest = min(gaps, key=lambda name: gaps[name])
    if gaps[ours[0].quantity] < 0.01:
        return Finding(
            Outcome.CONSISTENT, ours, "The count is that of the forward pass of the network in [14]."
        )
    explanation = (
        f"The nearest count is that of the {nearest}, {100 * gaps[nearest]:.1f}% away. The paper does not say whether "
        "it counts a multiplication and an addition as two, nor which of the two networks it means."
    )
    return Finding(Outcome.NO_VERDICT, ours, explanation)


def _nodes() -> float:
    """Return the nodes of a binary tree over a million priorities."""
    leaves, fanout = from_text("MAP.replay_capacity", "MAP.fanout")
    return leaves.value + (leaves.value - 1) / (fanout.value - 1)


def tree_nodes(_: pd.DataFrame) -> Finding:
    """Check MAP IV-C4: a binary tree over a million priorities has at most the stated number of nodes."""
    limit, nodes = from_text("MAP.binary_tree_nodes")[0], _nodes()
    ours = Number("nodes", nodes, "count", Provenance.MODELLED, "N + (N - 1) / (K - 1), K = 2 (PAL IV-C5)")
    holds = 0.99 * limit.value < nodes <= limit.value
    said = "Counted from the capacity and the fanout that the paper gives; nothing here was measured."
    return Finding(Outcome.CONSISTENT if holds else Outcome.INCONSISTENT, (ours,), said)


def tree_memory(_: pd.DataFrame) -> Finding:
    """Check MAP IV-C4: a binary tree over a million priorities fits the FPGA's memory."""
    nodes = _nodes()
    whole = from_cell("map_table_4", "last-level cache or SRAM", "FPGA")
    used = from_cell("map_table_6", "RMM (S=32)", "SRAM")
    source = f"counted nodes x {BYTES_A_NODE} bytes"
    size = Number("nodes of 32 bits", 1e-6 * BYTES_A_NODE * nodes, "MB", Provenance.MODELLED, source)
    bits = 8e6 * used.value / nodes
    width = Number(
        "bits a node that Table VI's memory allows", bits, "bit", Provenance.PUBLISHED, "SRAM / nodes"
    )
    known = (
        "What Table VI gives the replay manager holds as many nodes only if they are narrower than 32 bits, or its "
        "tree smaller: the paper gives neither."
    )
    if size.value < whole.value:
        return Finding(Outcome.CONSISTENT, (size, width), f"Counted: it fits in words of 32 bits. {known}")
    return Finding(
        Outcome.NO_VERDICT, (size, width), f"Counted: it does not fit in words of 32 bits. {known}"
    )


def _power_table(row: str) -> tuple[Number, Number, Number]:
    """Return GPS of MAP, GPS of RLlib and their ratio, from power and efficiency."""
    gps = []
    for system in ("MAP", "RLlib"):
        watts = from_cell("map_table_7", row, f"{system} power")
        efficiency = from_cell("map_table_7", row, f"{system} efficiency")
        value = watts.value * efficiency.value
        gps.append(
            Number(f"{row}: {system} throughput", value, "GPS", Provenance.PUBLISHED, "power x efficiency")
        )
    return gps[0], gps[1], ratio(f"{row}: gain over RLlib", gps[0], gps[1])


def table_7_throughput(_: pd.DataFrame) -> Finding:
    """Check MAP Table VII against VII-E: Hopper's gain over RLlib at the largest batch is the smallest one stated.

    VII-E states a range of gains, and says that the gain falls as the batch grows.
    """
    ours = _power_table("Hopper, DDPG")
    smallest = from_text("MAP.rllib_speedup_hopper_low")[0].value
    # 0.87 is printed with two digits, so the gain is known to 0.6%.
    if abs(ours[2].value / smallest - 1) < 0.02:
        return among_themselves(True, ours, needs=RLLIB_BESIDE)
    explanation = (
        "Table VII, at the largest batch, implies another gain than the low end of VII-E's range. VII-E says that the "
        "gain falls as the batch grows; whether it falls at every step only Fig. 14 showed, which is lost: at the "
        "largest batch the mapping changes to three devices (Table V), and the gain may rise again."
    )
    return Finding(Outcome.NO_VERDICT, ours, explanation)


def table_7_pong(_: pd.DataFrame) -> Finding:
    """Check MAP VII-E: the gain over RLlib that Table VII implies for Pong is within Pong's range of gains."""
    low, high = from_text("MAP.rllib_speedup_pong_low", "MAP.rllib_speedup_pong_high")
    ours = _power_table("Pong, DQN")
    within = low.value <= ours[2].value <= high.value
    said = "Table VII is of the largest batch; power times efficiency gives both throughputs."
    return among_themselves(within, ours, said, needs=RLLIB_BESIDE)


def table_7(frame: pd.DataFrame) -> Finding:
    """Check MAP Table VII: the gain in throughput per watt over RLlib.

    The outcome is always "not run", because RLlib's watts are not measured. The finding lists the gain that the table
    implies, and this project's throughput per watt if a run could measure its power.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    efficiency = [from_cell("map_table_7", "CartPole, DDPG", f"{s} efficiency") for s in ("MAP", "RLlib")]
    gain = ratio("CartPole: gain in GPS/W, from the table", *efficiency)
    ours = (
        number(row, f"{row.workload}, batch size {row.batch_size}, {mapping_of(row)}: GPS/W")
        for row in records(select(frame, suite=Suite.RUN, quantity="throughput_per_watt"))
    )
    explanation = "The text's gain is the table's largest."
    return Finding(Outcome.NOT_RUN, (gain, *ours), explanation, needs=NEEDS_WATTS)
