"""The cycles of exported designs, by the papers' formulas and of the hardware, with the reasons for the difference.

The hardware's are closed forms, which tests compare with the RTL. Besides the reasons of `gemm`, `gemm_float32`,
`learner` and `replay` there are:

- drawing: the batch is drawn before its first sample is trained. MAP overlaps the two.
- sequencer: the first importance weight, pipelines that get their samples in turn, and what passes between the phases.
- product: a bias is one more input; then the array empties, which takes longer in float32 than by Equation 5.
- rows: the product's rows go through activation or Adam, one per cycle, while the array is idle. PPO counts none.
- waits: until the last row is written, and to fetch and start each step.
- drains: until the last results of a pass are stored.
- samples: lines from the host, and results to it.
- scalars: tanh of the action, and errors.
- adam: for how long nothing but Adam goes on.
- control: a cycle for the command, and for each instruction.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles import gemm, gemm_float32, learner, ppo, ppo_accelerator, replay
from placerl.primitives.fpga.cycles.difference_table import CycleDifference, batch_difference
from placerl.primitives.fpga.cycles.networks import mlp
from placerl.primitives.fpga.gemm.arithmetic import FLOAT32
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape

CORE, FLOAT32_CORE = "core", "core of float32"
"""The names of the systolic cores in the rows."""
REQUESTS, BATCH = 256, 64
"""Requests of a batch to a replay, and samples of a batch of FIX's."""


def reasons(block: str) -> dict[str, str]:
    """Return what each reason for a difference of a block means, by its name: the lists at the tops of the modules.

    A core of integers, one of float32 and a replay pipeline fill and drain in different ways, under one name.

    Args:
        block: of a row (`CycleDifference.block`).
    """
    module = {CORE: gemm, FLOAT32_CORE: gemm_float32}.get(block, replay)
    texts = [module.__doc__ or "", learner.__doc__ or "", __doc__ or ""]
    found = re.findall(r"^- ([^:]+): (.+?)(?=^-|^$|\Z)", "\n".join(texts), re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in found}


def of_replay(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of batches of samples and of updates on a replay pipeline, or on several in the wide form."""
    from placerl.primitives.fpga.cycles.replay_timer import ReplayTimer

    layout, form = design.layout, design.form.value
    banks, tree = getattr(layout, "banks", 1), getattr(layout, "bank", layout)
    levels, fanout = tree.levels, tree.fanout
    if banks > 1 and form != "wide":
        return  # how long lanes wait there is known only from a simulation
    timer, rng = ReplayTimer(banks, levels, fanout), np.random.default_rng(0)
    # An update, so that the samples after it change the phase, as those of the table do. On the last lane it leaves
    # whose turn is next as it was.
    timer.cycles(np.zeros(1, np.int64), np.full(1, banks - 1), writes=True)
    for call in ("sample", "update"):
        to, lanes = rng.integers(0, banks, REQUESTS), np.arange(REQUESTS) % banks
        cycles = timer.cycles(to, lanes, writes=call == "update")
        if banks == 1:
            timing = replay.level_timing(fanout=fanout, narrow=form == "narrow", samples=call == "sample")
            cycles = replay.pipeline_cycles(REQUESTS, levels=levels, timing=timing)
        loads = np.bincount(to, minlength=banks).tolist()
        yield batch_difference(form, call, cycles, loads, fanout=fanout, levels=levels)


def of_core(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of a square product and of one of a single row on the systolic core, in each dataflow."""
    side = design.side
    for rows in (4 * side, 1):
        shape = GemmShape(rows, 4 * side, 4 * side)
        for dataflow in DATAFLOWS:
            formula = gemm.ppo_cycles(shape, side=side, dataflow=dataflow)
            if design.float32:
                cycles = gemm_float32.core_cycles(shape, side=side, dataflow=dataflow)
                drain = FLOAT32.drain_cycles(side) - 2 * side
                if dataflow == "NS":  # whose sums need no total
                    drain -= FLOAT32.total_cycles
                rest = "idle turns" if dataflow == "NS" else "short passes"
                terms = {"fill and drain": drain, rest: cycles - formula - drain}
            else:
                terms = gemm.difference_terms(shape, side=side, dataflow=dataflow)
                cycles = gemm.core_cycles(shape, side=side, dataflow=dataflow)
            case = f"{shape.a} x {shape.b} x {shape.c}, {dataflow}"
            yield CycleDifference(FLOAT32_CORE if design.float32 else CORE, case, formula, cycles, terms)


def of_learner(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of a batch on the learner pipelines."""
    from placerl.primitives.fpga.learner_pipeline.update_unit import adam_latency

    work, samples, pipelines = learner.Pass(design.layers), design.samples, design.pipelines
    latency = adam_latency(pipelines * samples)
    yield CycleDifference(
        "learner",
        f"B = {pipelines * samples}",
        learner.map_cycles(work, samples=samples, pipelines=pipelines),
        learner.pipeline_cycles(work, samples=samples) + learner.update_cycles(work, adam_latency=latency),
        learner.difference_terms(work, samples=samples, pipelines=pipelines, adam_latency=latency),
    )


def of_map(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of a gradient step of MAP's accelerator; exact with one bank."""
    from placerl.primitives.fpga.learner_pipeline.update_unit import target_latency
    from placerl.primitives.fpga.map_accelerator.timer import step_cycles

    settings = design.settings
    batch, pipelines = settings.largest_batch, settings.pipelines
    cycles, formula, terms = step_cycles(settings, batch), 0, dict[str, float]()
    for work in learner.gradient_step_passes(settings.layers, settings.actor):
        sizes = {"samples": batch // pipelines, "pipelines": pipelines}
        formula += learner.map_cycles(work, **sizes)
        for name, value in learner.difference_terms(work, **sizes, adam_latency=target_latency()).items():
            terms[name] = terms.get(name, 0) + value
    timing = replay.level_timing(fanout=settings.fanout, narrow=False, samples=True)
    terms["drawing"] = replay.pipeline_cycles(batch, levels=settings.levels, timing=timing)
    terms["sequencer"] = cycles - formula - sum(terms.values())
    yield CycleDifference("map-accelerator", f"gradient step, B = {batch}", formula, cycles, terms)


def of_ppo(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of each process of a mini-batch for both networks of PPO's accelerator, in the dataflow NS."""
    for name, program in zip(("policy", "value"), design.programs, strict=True):
        steps = (*program.forward, *program.training(0), *(program.updates(0) if program.clips else ()))
        for process in ppo.PROCESSES:
            of_process = [step for step in steps if step.process == process]
            side, activation = program.side, "relu" if design.sizes.relu else "tanh"
            formula = ppo.process_cycles(
                mlp(*program.sizes), process, program.batch, side=side, dataflow="NS"
            )
            cycles = ppo_accelerator.run_cycles(of_process, program, activation)
            product = sum(
                ppo_accelerator.occupied_cycles(step.shape, side=side, dataflow="NS") for step in of_process
            )
            rows = sum(ppo_accelerator.rows(step, side=side) for step in of_process)
            terms = {"product": product - formula, "rows": rows, "waits": cycles - product - rows}
            case = f"{name}, {process}, M = {program.batch}"
            yield CycleDifference("ppo-accelerator", case, formula, cycles, terms)


def of_fixar(design: Any) -> Iterator[CycleDifference]:
    """Yield the cycles of a training step of FIX's accelerator, beyond those in which the cores get a block.

    FIX has no formula of its own.
    """
    from placerl.primitives.fpga.fixar.cycles import step_cycles

    for halves in (False, True):
        for overlap in (False, True):
            parts = step_cycles(design.shape, BATCH, halves=halves, overlap=overlap)
            case = f"training step, B = {BATCH}, activations of {16 if halves else 32} bits"
            products = parts["products"]
            terms = {name: value for name, value in parts.items() if name != "products"}
            yield CycleDifference("fixar", case + ", overlap" * overlap, products, sum(parts.values()), terms)
