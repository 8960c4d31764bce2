"""Claims of MAP: mapping DRL with prioritised replay onto CPU, GPU and FPGA."""

import math
from typing import Any

import pandas as pd

from harness.claims import devices, relaxed_reward
from harness.claims.base import Claim, Finding, Outcome
from harness.claims.evidence import detail, mapping_of, noisy, number, rate, records, select
from harness.claims.number import Number, from_cell, from_text, merge_rows, ratio
from harness.provenance import Provenance

MODEL = "map-tpds23"  # the strategy that predicts as MAP does
NEEDS_ERRORS = "a prediction, and a training run under the mapping that it chose"
NEEDS_GAPS = "the learner's profile, and a training run under the mapping that MAP's strategy chose from it"
NEEDS_TABLE_5 = "`placerl reproduce --only MAP-T5`"
NEEDS_ALONE = "CartPole's learner and replay alone beside RLlib's (`placerl compare cartpole-dqn --alone`)"
FPGA_AND_GPU = "a CUDA device and FPGA primitives (simulated)"


def _count(quantity: str, value: int, source: str) -> Number:
    return Number(quantity, value, "count", Provenance.MODELLED, source)


def table_3(row: str, state: int, action: int, hidden: int) -> Finding:
    """MAP Table III: the column MACs against exact counts of the row's own multi-layer perceptron."""
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
        return Finding(Outcome.REPRODUCED, ours, "The count is that of the network's forward pass.")
    if abs(ours[3].value - published.value) <= tolerance:
        explanation = (
            "Neither network of this row has that many multiply-accumulates; the number is the parameter "
            "count, biases included, of a critic with |S| + |A| + 1 inputs."
        )
        return Finding(Outcome.INCONSISTENT, ours, explanation)
    return Finding(Outcome.NOT_REPRODUCED, ours, "No count of this row's networks comes near the number.")


def table_3_pong(_: pd.DataFrame) -> Finding:
    """MAP Table III, row Pong: 18.8M against the two networks that "ConvNet in [14]" can mean."""
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
        return Finding(Outcome.REPRODUCED, ours)
    explanation = f"The nearest count is that of the {nearest}, {100 * gaps[nearest]:.1f}% away."
    return Finding(Outcome.NOT_REPRODUCED, ours, explanation)


def _chosen_runs(frame: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Every training run under the mapping that MAP's strategy chose for it, with the prediction of that mapping.

    A run under a mapping that somebody asked for, or with options that no strategy knows of, says nothing about it.
    """
    predicted = select(frame, suite="prediction", quantity="gradient_steps_per_s", backend=MODEL)
    chosen = {
        (row.workload, row.batch_size, detail(row, "mapping")): row
        for row in records(predicted)
        if detail(row, "chosen")
    }
    achieved = select(frame, suite="run", quantity="gradient_steps_per_s")
    placed = [
        ((run.workload, run.batch_size, detail(run, "mapping")), run)
        for run in records(achieved)
        if not detail(run, "options")
    ]
    return [(run, chosen[place]) for place, run in placed if place in chosen]


def optimum_gap(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: achieved throughput against the rate of the fastest learner primitive of the same run."""
    steps = select(frame, suite="profile", primitive="learner.step", quantity="time_per_call")
    gaps, used_noise = [], False
    for run, _ in _chosen_runs(frame):
        mine = steps[(steps["workload"] == run.workload) & (steps["batch_size"] == run.batch_size)]
        # A measured run cannot reach, nor be judged by, the rate of a device that was only simulated.
        mine = mine[mine["provenance"] == run.provenance]
        if mine.empty:
            continue
        (fastest,) = records(mine.nsmallest(1, "value"))
        optimum = rate(fastest, f"optimum of {run.workload}, batch size {run.batch_size}")
        share = ratio("share", number(run, "achieved"), optimum)
        low = None if share.high is None else 100 * (1 - share.high)
        high = None if share.low is None else 100 * (1 - share.low)
        gap = 100 * (1 - share.value)
        name = f"{run.workload}, batch size {run.batch_size}, {run.device or run.backend}: gap to the optimum"
        source = "1 - achieved GPS x time of the fastest learner step"
        gaps.append(Number(name, gap, "%", share.provenance, source, low, high, share.rows))
        used_noise = used_noise or noisy(frame.loc[list(share.rows)])
    if not gaps:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_GAPS)
    limit = from_text("MAP.optimum_gap")[0].value
    lows = [gap.value if gap.low is None else gap.low for gap in gaps]
    highs = [gap.value if gap.high is None else gap.high for gap in gaps]
    within = sum(high <= limit for high in highs)
    explanation = f"{within} of {len(gaps)} runs are within {limit:g}% with their whole interval."
    if within == len(gaps):
        outcome = Outcome.REPRODUCED
    elif used_noise:
        outcome = Outcome.NO_VERDICT
        explanation += " Some rows are too noisy."
    elif any(low > limit for low in lows):
        outcome = Outcome.NOT_REPRODUCED
    else:
        outcome = Outcome.NO_VERDICT
        explanation += " The others' intervals contain the limit."
    return Finding(outcome, tuple(gaps), explanation)


def table_5(frame: pd.DataFrame) -> Finding:
    """MAP Table V: its optimal mappings on MAP's platform, modelled, and the gain of the best mapping on this one."""
    cells = records(select(frame, suite="claim", primitive="mapping", quantity="as_printed", backend=MODEL))
    if not cells:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_TABLE_5)
    agree = sum(row.value == 1 for row in cells)
    rows = tuple(int(row.Index) for row in cells)
    source = "Algorithm 3 on times modelled from the published numbers of MAP's platform"
    name = f"optimal mappings as printed, of {len(cells)}"
    ours = [Number(name, agree, "count", Provenance.MODELLED, source, rows=rows)]
    missed = [
        f"{row.workload}, batch size {row.batch_size}: {detail(row, 'ours')} for {detail(row, 'published')}: "
        f"{detail(row, 'reason')}"
        for row in cells
        if row.value != 1
    ]
    ours += _best_over_worst(frame)
    explanation = "; ".join(missed) + "." if missed else "All of them come out."
    if not missed:
        outcome = Outcome.REPRODUCED
    elif _learner_devices(cells, "ours") == _learner_devices(cells, "published"):
        outcome = Outcome.IN_KIND
        explanation += " Over the batch size the learner moves between the same devices in the same order."
    else:
        outcome = Outcome.NOT_REPRODUCED
    explanation += (
        " The paper's gains over other mappings are of its devices; those here are of this machine's."
    )
    return Finding(outcome, tuple(ours), explanation)


def _learner_devices(cells: list[Any], name: str) -> dict[str, list[str]]:
    """By workload: the learner's devices over the batch size, each change once."""
    found: dict[str, list[str]] = {}
    for row in sorted(cells, key=lambda row: row.batch_size):
        devices = found.setdefault(row.workload, [])
        device = str(detail(row, name))[0]
        if devices[-1:] != [device]:
            devices.append(device)
    return found


def _best_over_worst(frame: pd.DataFrame) -> list[Number]:
    """The largest gain of the best mapping over the worst in a validation, without and with the simulated FPGA."""
    ran = select(frame, suite="validation", quantity="gradient_steps_per_s")
    ran = ran[[detail(row, "loop") == "fused" for row in records(ran)]] if len(ran) else ran
    found = []
    for what, some in (("", ran[ran["provenance"] == "measured"]), (", FPGA simulated", ran)):
        gains = []
        for (workload, size), cell in some.groupby(["workload", "batch_size"]):
            best, worst = records(cell.nlargest(1, "value"))[0], records(cell.nsmallest(1, "value"))[0]
            name = f"{workload}, batch size {size:g}: {best.device} over {worst.device}{what}"
            gains.append(ratio(name, number(best, "best"), number(worst, "worst")))
        if gains:
            found.append(max(gains, key=lambda gain: gain.value))
    return found if len({gain.rows for gain in found}) == len(found) else found[:1]


def table_6(_: pd.DataFrame) -> Finding:
    """MAP Table VI: the device total that each share implies."""
    ours = []
    for row in ("RMM (S=32)", "DQN learner", "DDPG learner"):
        used, share = from_cell("map_table_6", row, "LUT"), from_cell("map_table_6", row, "LUT share")
        ours.append(
            Number(
                f"{row}: LUTs of the whole device",
                100 * used.value / share.value,
                "count",
                Provenance.PUBLISHED,
                "used / share",
                100 * used.value / (share.value + 1),
                100 * used.value / (share.value - 1),
            )
        )
    agree = max(n.low or 0 for n in ours) <= min(n.high or math.inf for n in ours)
    if agree:
        return Finding(Outcome.NOT_RUN, tuple(ours), needs="FPGA resources from synthesis")
    explanation = (
        "The LUT shares of the three modules imply different totals for one device, even if each is off by a "
        "percentage point. The other columns agree with the device."
    )
    return Finding(Outcome.INCONSISTENT, tuple(ours), explanation)


def _power_table(row: str) -> tuple[Number, Number, Number]:
    """GPS of MAP, GPS of RLlib and their ratio, from power and efficiency."""
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
    """MAP Table VII gives Hopper's gain at the largest batch; VII-E a range, and that the gain falls."""
    ours = _power_table("Hopper, DDPG")
    smallest = from_text("MAP.rllib_speedup_hopper_low")[0].value
    # 0.87 is printed to two digits, so that the gain is known to 0.6%.
    if abs(ours[2].value / smallest - 1) < 0.02:
        return Finding(Outcome.NOT_RUN, ours, needs=FPGA_AND_GPU)
    explanation = (
        "VII-E says that the gain falls as the batch grows, so that its range ends at the largest one; "
        "Table VII, at that batch size, implies a higher gain."
    )
    return Finding(Outcome.INCONSISTENT, ours, explanation)


def table_7(_: pd.DataFrame) -> Finding:
    """MAP Table VII: its own arithmetic; the measurement itself needs watts."""
    efficiency = [from_cell("map_table_7", "CartPole, DDPG", f"{s} efficiency") for s in ("MAP", "RLlib")]
    gain = ratio("CartPole: gain in GPS/W, from the table", *efficiency)
    explanation = "The text's gain is the table's largest; nothing of it was measured here."
    return Finding(
        Outcome.NOT_RUN, (gain,), explanation, needs=f"watts of every device, {FPGA_AND_GPU}, RLlib"
    )


def prediction_error(frame: pd.DataFrame) -> Finding:
    """MAP VI-B: predicted throughput, the minimum over the primitives, against achieved throughput."""
    limit = from_text("MAP.optimum_gap")[0].value
    errors, within, outside, noisy_ones = [], 0, 0, 0
    for run, prediction in _chosen_runs(frame):
        over = ratio("predicted over achieved", number(prediction, "predicted"), number(run, "achieved"))
        low, high = (None if bound is None else 100 * (bound - 1) for bound in (over.low, over.high))
        name = (
            f"{run.workload}, batch size {run.batch_size}, {detail(run, 'mapping')}: error of the prediction"
        )
        source = "predicted / achieved - 1"
        errors.append(
            Number(name, 100 * (over.value - 1), "%", over.provenance, source, low, high, over.rows)
        )
        # A prediction is too noisy when one of the times that it was made from is.
        if noisy(frame.loc[list(over.rows)]):
            noisy_ones += 1
        elif low is not None and high is not None:
            within += -limit <= low and high <= limit
            outside += low > limit or high < -limit
    if not errors:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ERRORS)
    explanation = (
        f"Of {len(errors)} predictions {within} are within {limit:g}% with their whole interval, {outside} outside, "
        f"{noisy_ones} too noisy; above 0 is a prediction too high."
    )
    if within == len(errors):
        return Finding(Outcome.REPRODUCED, tuple(errors), explanation)
    return Finding(Outcome.NOT_REPRODUCED if outside else Outcome.NO_VERDICT, tuple(errors), explanation)


def rllib(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 14: gain over RLlib; which ends of the range need which device."""
    from harness.claims.comparisons import gains

    ours = tuple(gain.ratio for gain in gains(frame, "rllib"))
    needs = FPGA_AND_GPU if ours else f"the baseline RLlib, {FPGA_AND_GPU}"
    return Finding(Outcome.NOT_RUN, ours, needs=needs)


def rllib_cartpole(frame: pd.DataFrame) -> Finding:
    """MAP VII-E: the largest gain over RLlib, CartPole's, from learner and replay alone on this machine's CPU."""
    from harness.claims.comparisons import gains
    from harness.compare import Part, label

    found = gains(frame, label("rllib", Part.LEARNER_AND_REPLAY))
    if not found:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ALONE)
    ours = tuple(gain.ratio for gain in found)
    published = from_text("MAP.rllib_speedup_high")[0].value
    words = [gain.verdict for gain in found]
    said = (
        f"Faster in {words.count('faster')} of {len(found)} comparisons of gradient steps with prioritised replay, "
        "without environment steps on either side; both on one core, where MAP's best mapping has an FPGA."
    )
    reached = any((n.value if n.low is None else n.low) >= published for n in ours)
    if "slower" in words:
        return Finding(Outcome.NOT_REPRODUCED, ours, said)
    if "no verdict" in words:
        return Finding(Outcome.NO_VERDICT, ours, said)
    return Finding(Outcome.REPRODUCED if reached else Outcome.IN_KIND, ours, said)


def tree_nodes(_: pd.DataFrame) -> Finding:
    """MAP IV-C4: how many nodes a binary tree over a million priorities has."""
    leaves, limit, fanout = from_text("MAP.replay_capacity", "MAP.binary_tree_nodes", "MAP.fanout")
    nodes = leaves.value + (leaves.value - 1) / (fanout.value - 1)
    ours = Number("nodes", nodes, "count", Provenance.MODELLED, "N + (N - 1) / (K - 1), K = 2 (PAL IV-C5)")
    outcome = Outcome.REPRODUCED if 0.99 * limit.value < nodes <= limit.value else Outcome.NOT_REPRODUCED
    return Finding(outcome, (ours,))


def replay_hidden(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: above batch size 256 Hopper's learner takes longer than the replay manager on the CPU."""
    rows = select(frame, suite="profile", quantity="time_per_call", workload="hopper-ddpg")
    low, high = (
        from_text(f"MAP.{key}")[0].value
        for key in ("hopper_learner_on_gpu_above", "hopper_replay_on_fpga_at")
    )
    rows = rows[(rows["batch_size"] > low) & (rows["batch_size"] < high)]
    shares = []
    for size in sorted(rows["batch_size"].unique()):
        fastest = {
            primitive: records(some.nsmallest(1, "value"))[0]
            for primitive, some in rows[rows["batch_size"] == size].groupby("primitive")
        }
        if {"learner.step", "sum_tree.sample", "sum_tree.update"} <= set(fastest):
            learner = number(fastest["learner.step"], "learner")
            for operation in ("sum_tree.sample", "sum_tree.update"):
                name = f"batch size {size}: {operation} over the learner's step"
                shares.append(ratio(name, number(fastest[operation], operation), learner))
    if not shares:
        needs = f"Hopper's learner and sum tree profiled at a batch size between {low:g} and {high:g}"
        return Finding(Outcome.NOT_RUN, needs=needs)
    explanation = (
        "Hidden behind the learner when sampling and updating together take less time than its step. The learner "
        "here is this machine's fastest, not the paper's GPU, which hides less."
    )
    pairs = list(zip(shares[::2], shares[1::2], strict=True))
    if noisy(frame.loc[list(merge_rows(shares))]):
        return Finding(Outcome.NO_VERDICT, tuple(shares), explanation + " Some rows are too noisy.")
    hidden = [sum(share.value if share.high is None else share.high for share in pair) < 1 for pair in pairs]
    shown = [sum(share.value if share.low is None else share.low for share in pair) > 1 for pair in pairs]
    outcome = Outcome.IN_KIND if all(hidden) else Outcome.NOT_REPRODUCED if any(shown) else Outcome.NO_VERDICT
    return Finding(outcome, tuple(shares), explanation)


def shared_gpu(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: what a replay manager on the learner's GPU costs, beside one on the CPU."""
    rows = select(frame, suite="validation", quantity="gradient_steps_per_s", backend="placerl")
    found: dict[tuple[str, int], dict[bool, Number]] = {}
    for row in records(rows):
        learner, rmm, _ = mapping_of(row).split("-")
        if learner == "torch:cuda":
            mine = found.setdefault((row.workload, int(row.batch_size)), {})
            reached, shared = number(row, mapping_of(row)), "cuda" in rmm
            if shared not in mine or reached.value > mine[shared].value:
                mine[shared] = reached
    losses = []
    for (workload, size), mine in sorted(found.items()):
        if len(mine) == 2:
            kept = ratio("kept", mine[True], mine[False])
            low, high = (None if bound is None else 100 * (1 - bound) for bound in (kept.high, kept.low))
            name = f"{workload}, batch size {size}: loss with the replay manager on the learner's GPU"
            source = "1 - best shared / best apart"
            loss = 100 * (1 - kept.value)
            losses.append(Number(name, loss, "%", kept.provenance, source, low, high, kept.rows))
    if not losses:
        return Finding(Outcome.NOT_RUN, needs="a CUDA device, its mappings run (`placerl validate`)")
    if noisy(frame.loc[list(merge_rows(losses))]):
        return Finding(Outcome.NO_VERDICT, tuple(losses), "Some rows are too noisy.")
    costs = sum((n.value if n.low is None else n.low) > 0 for n in losses)
    said = f"It costs throughput in {costs} of {len(losses)} cells."
    return Finding(Outcome.IN_KIND if costs == len(losses) else Outcome.NOT_REPRODUCED, tuple(losses), said)


CLAIMS = (
    Claim(
        "MAP-T3-CartPole",
        "Table III, row CartPole",
        "Multiply-accumulates of CartPole's network",
        (from_cell("map_table_3", "CartPole", "MACs"),),
        "nothing",
        lambda _: table_3("CartPole", 4, 1, 8),
    ),
    Claim(
        "MAP-T3-Hopper",
        "Table III, row Hopper",
        "Multiply-accumulates of Hopper's network",
        (from_cell("map_table_3", "Hopper", "MACs"),),
        "nothing",
        lambda _: table_3("Hopper", 11, 3, 256),
    ),
    Claim(
        "MAP-T3-Pong",
        "Table III, row Pong",
        "Multiply-accumulates of Pong's network",
        (from_cell("map_table_3", "Pong", "MACs"),),
        "nothing",
        table_3_pong,
    ),
    Claim(
        "MAP-IV-C4",
        "IV-C4",
        "A binary sum tree over a million priorities has at most so many nodes",
        from_text("MAP.binary_tree_nodes"),
        "nothing",
        tree_nodes,
    ),
    Claim(
        "MAP-VI-B",
        "VI-B, Equation 3",
        "Throughput is the smallest over learner and replay manager: prediction against achievement",
        (),
        NEEDS_ERRORS,
        prediction_error,
    ),
    Claim(
        "MAP-F10",
        "VII-B, Fig. 10",
        "50 pre-sampled batches cost no reward; 200 visibly do on Hopper",
        from_text("MAP.presampled_batches_chosen", "MAP.presampled_batches_visible", "MAP.seeds"),
        relaxed_reward.NEEDS_PRESAMPLED,
        relaxed_reward.presampled,
        ("claim/MAP-F10",),
    ),
    Claim(
        "MAP-F11",
        "VII-C, Fig. 11",
        "Hopper trains fastest on the FPGA at small batches and on the GPU at large ones",
        from_text("MAP.fpga_training_best_below_hopper", "MAP.gpu_training_best_above_hopper"),
        FPGA_AND_GPU,
        lambda frame: devices.crossover(
            frame, "hopper-ddpg", "MAP.fpga_training_best_below_hopper", "MAP.gpu_training_best_above_hopper"
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F11-Pong",
        "VII-C, Fig. 11",
        "Pong trains fastest on the FPGA at small batches and on the GPU at large ones",
        from_text("MAP.fpga_training_best_below_pong", "MAP.gpu_training_best_above_pong"),
        FPGA_AND_GPU,
        lambda frame: devices.crossover(
            frame, "pong-dqn", "MAP.fpga_training_best_below_pong", "MAP.gpu_training_best_above_pong"
        ),
        devices.reads("pong-dqn"),
        devices.commands("pong-dqn", 8, 64),
    ),
    Claim(
        "MAP-F11-CartPole",
        "VII-C, Fig. 11",
        "CartPole, whose network is small, trains fastest on the FPGA at every batch size",
        (),
        FPGA_AND_GPU,
        devices.smallest_network,
        devices.reads("cartpole-ddpg"),
    ),
    Claim(
        "MAP-F12-sampling",
        "VII-C, Fig. 12",
        "Prefix sum index: time on the GPU hardly depends on the batch; FPGA against GPU",
        from_text("MAP.prefix_sum_fpga_over_gpu_high", "MAP.prefix_sum_gpu_over_fpga_high"),
        FPGA_AND_GPU,
        lambda frame: devices.fpga_over_gpu(
            frame, "sum_tree.sample", "MAP.prefix_sum_gpu_over_fpga_high", "MAP.prefix_sum_fpga_over_gpu_high"
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F12-GPU",
        "VII-C, Fig. 12",
        "On the GPU the prefix sum index takes the same time at every batch size, the update grows in proportion",
        (),
        "a CUDA device",
        devices.gpu_constant,
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F12-linear",
        "VII-C, Fig. 12",
        "On the FPGA the time of replay operations is linear in the batch above a size",
        from_text("MAP.fpga_replay_linear_above"),
        "the FPGA's sum tree at two batch sizes above that (simulated)",
        devices.fpga_linear,
        devices.reads("hopper-ddpg", timed=False),
    ),
    Claim(
        "MAP-F12-update",
        "VII-C, Fig. 12",
        "Priority update: the FPGA is always faster than the GPU",
        from_text("MAP.priority_update_fpga_over_gpu_low", "MAP.priority_update_fpga_over_gpu_high"),
        FPGA_AND_GPU,
        lambda frame: devices.fpga_over_gpu(
            frame,
            "sum_tree.update",
            "MAP.priority_update_fpga_over_gpu_low",
            "MAP.priority_update_fpga_over_gpu_high",
        ),
        devices.reads("hopper-ddpg"),
    ),
    Claim(
        "MAP-F12-threads",
        "VII-C, Fig. 12",
        "CPU threads speed up sampling and do not speed up priority updates",
        (),
        "the sum tree profiled over numbers of threads",
    ),
    Claim(
        "MAP-F13",
        "VII-D, Fig. 13",
        "Achieved throughput is near the theoretical optimum, the fastest learner's rate",
        from_text("MAP.optimum_gap"),
        NEEDS_GAPS,
        optimum_gap,
    ),
    Claim(
        "MAP-F13-hidden",
        "VII-D",
        "From batch size 256 to 16384 a replay manager on the CPU hides behind Hopper's learner",
        from_text("MAP.hopper_learner_on_gpu_above", "MAP.hopper_replay_on_fpga_at"),
        "Hopper's learner and sum tree profiled at a batch size between those",
        replay_hidden,
    ),
    Claim(
        "MAP-F13-sharing",
        "VII-D",
        "A replay manager on the learner's GPU costs throughput",
        from_text("MAP.shared_gpu_loss"),
        "a CUDA device",
        shared_gpu,
        commands=("placerl validate --tier quick", "placerl report"),
    ),
    Claim(
        "MAP-T5",
        "VII-D, Table V",
        "Optimal mapping by batch size, and its gain over the other mappings",
        from_text("MAP.best_speedup_over_baseline_mapping", "MAP.three_device_speedup"),
        NEEDS_TABLE_5,
        table_5,
        ("claim/MAP-T5", "validation"),
    ),
    Claim(
        "MAP-T6",
        "Table VI",
        "FPGA resources of replay manager and learners",
        tuple(
            from_cell("map_table_6", row, column)
            for row in ("RMM (S=32)", "DQN learner", "DDPG learner")
            for column in ("LUT", "LUT share")
        ),
        "FPGA resources from synthesis",
        table_6,
    ),
    Claim(
        "MAP-F14",
        "VII-E, Fig. 14",
        "Gain over RLlib",
        from_text("MAP.rllib_speedup_low", "MAP.rllib_speedup_high"),
        f"the baseline RLlib, {FPGA_AND_GPU}",
        rllib,
    ),
    Claim(
        "MAP-F14-CartPole",
        "VII-E, Fig. 14",
        "The largest gain over RLlib is CartPole's",
        from_text("MAP.rllib_speedup_high"),
        NEEDS_ALONE,
        rllib_cartpole,
        ("compare/cartpole-dqn",),
        commands=(
            "placerl compare cartpole-dqn --alone --baselines rllib --batch-size 2048",
            "placerl report",
        ),
    ),
    Claim(
        "MAP-F14-Hopper",
        "VII-E against Table VII",
        "Hopper's gain over RLlib falls with the batch size, to the low end of its range",
        from_text("MAP.rllib_speedup_hopper_low", "MAP.rllib_speedup_hopper_high"),
        "nothing",
        table_7_throughput,
    ),
    Claim(
        "MAP-T7",
        "VII-E, Table VII",
        "Gradient steps per second and watt, and their gain over RLlib",
        from_text("MAP.power_efficiency_gain"),
        f"watts of every device, {FPGA_AND_GPU}, RLlib",
        table_7,
    ),
)
