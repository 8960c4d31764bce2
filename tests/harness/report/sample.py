"""A store with everything that a report can show: values of every provenance, failures, noise, odd names."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from placerl.harness.compare.learning import BEST, END
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.report import pages
from placerl.harness.report.content import Content
from placerl.harness.store.store import Store
from tests.harness.old_form import row_of
from tests.harness.papers.rows import compared, finish_each, measurement, predicted, profiled, trained

MACHINE = {
    "fingerprint": "f00d-test",
    "cpu": {
        "model": "Test CPU <b>& friends</b>",
        "cores": 2,
        "vector_flags": ["avx2", "fma"],
        "caches": [
            {"level": 1, "kind": "data", "size_bytes": 49152, "shared_by_cores": 1},
            {"level": 3, "kind": "unified", "size_bytes": 33554432, "shared_by_cores": 2},
        ],
    },
    "links": [{"source": "cpu", "target": "cpu", "bytes_per_s": 8323516023.5}],
    "power": [{"name": "RAPL", "readable": False, "reason": "not offered"}],
    "backends": [{"primitive": "learner", "name": "torch", "available": True, "reason": ""}],
    "versions": {"python": "3.11.7", "torch": "2.13.0"},
}
HOSTILE = """<script>document.title = "broken" + '$_{'</script>"""
ELSEWHERE = MACHINE | {"fingerprint": "cafe-test", "cpu": {"model": "Other CPU", "cores": 64}}
VERSIONS = {"python": "3.11.7", "torch": "2.13.0+cpu"}
WORKLOADS = {"cartpole-ddpg": 1.0, "cartpole-dqn": 1.3, "hopper-ddpg": 6.0}
SIZES = (32, 256, 2048)


def work(primitive: str, size: int) -> dict[str, int]:
    flops = {"storage.gather": 0, "learner.step": 40_000 * size}.get(primitive, 80 * size)
    return {"flops": flops, "traffic_bytes": 100_000 + 320 * size, "footprint_bytes": 426_668}


def roofs() -> Iterator[Row]:
    bandwidth = {"quantity": "copy_bandwidth", "unit": "B/s", "suite": "roofs"}
    peak = {"quantity": "peak", "unit": "FLOP/s", "suite": "roofs"}
    for size, rate in ((2**19, 9e10), (2**24, 4e10), (2**28, 1.2e10)):
        details = {"footprint_bytes": size}
        yield measurement(rate, primitive="copy_bandwidth", device="cpu", details=details, **bandwidth)
    yield measurement(1.6e11, primitive="peak", device="cpu", **peak)
    for fields, value in ((peak, 1.459e11), (bandwidth, 3.648e10)):
        fields |= {"primitive": fields["quantity"], "provenance": Provenance.MODELLED}
        yield measurement(value, device="fpga", details={"primitives": "learner"}, **fields)


def profile(workload: str, cost: float) -> Iterator[Row]:
    backends = {
        "sum_tree.sample": {"native": 2e-6, "reference": 9e-5},
        "sum_tree.update": {"native": 3e-6, "reference": 1.4e-4},
        "storage.gather": {"native": 4e-6},
        "learner.step": {"torch": 4e-4, "graph": 2.1e-4},
    }
    for primitive, known in backends.items():
        for backend, base_s in known.items():
            for size in SIZES:
                time_s = base_s * cost * (1 + size / 200)
                details = {"fanout": 16, "capacity": 100_000} if primitive.startswith("sum_tree") else {}
                details |= {"work": work(primitive, size)}
                yield profiled(
                    primitive, time_s, size, workload=workload, backend=backend, spread=0.04, details=details
                )
    yield profiled(
        "learner.step",
        9e-5,
        256,
        workload=workload,
        backend="fpga",
        device="fpga",
        provenance=Provenance.SIMULATED,
        details={"clock_hz": 285e6, "work": work("learner.step", 256)},
    )
    for size in SIZES:
        yield measurement(
            None,
            suite="profile",
            workload=workload,
            primitive="learner.step",
            backend="torch",
            device="cuda",
            batch_size=size,
            status="not_run",
            reason="needs a CUDA device: no driver",
        )


def training(workload: str, cost: float, seed: int) -> Iterator[Row]:
    gps = 900 / cost
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(20, 200, 120))
    returns = 20 + 380 * (1 - np.exp(-np.arange(120) / 40)) + rng.normal(0, 30, 120)
    details = {"mapping": "torch-native-cpu", "seed": seed}
    yield predicted(gps * 1.12, workload=workload, details=details | {"chosen": True})
    yield predicted(gps * 0.97, workload=workload, backend="primitive-sum", details=details)
    yield predicted(gps * 0.4, workload=workload, details={"mapping": "graph-reference-cpu"})
    yield trained(gps, workload=workload, spread=0.02, details=details)
    yield trained(gps * 1.01, workload=workload, quantity="environment_steps_per_s", details=details)
    yield trained(
        0.02,
        workload=workload,
        suite="validation",
        quantity="regret",
        unit="1",
        backend="map-tpds23",
        device="torch-native-cpu",
        details={"chosen": "torch-native-cpu", "best": "native-native-cpu"},
    )
    yield row_of(
        suite="run",
        workload=workload,
        primitive="training",
        backend="torch-native-cpu",
        device="cpu",
        batch_size=256,
        quantity="episode_return",
        unit="1",
        provenance=Provenance.MEASURED,
        value=float(np.median(returns)),
        samples=tuple(returns.tolist()),
        details=details | {"environment_step": steps.tolist()},
    )


def validation(workload: str) -> Iterator[Row]:
    """Three mappings at two batch sizes; the default strategy chose the best at one of them."""
    for size, rates in ((32, (500.0, 900.0, 90.0)), (256, (400.0, 350.0, 80.0))):
        for mapping, gps in zip(
            ("torch-native-cpu", "native-native-cpu", "opencl-flat-cpu"), rates, strict=True
        ):
            details = {"mapping": mapping, "loop": "fused"}
            fields = {"suite": "validation", "workload": workload, "details": details}
            yield trained(gps, size, spread=0.02, backend="placerl", **fields)
            fields |= {"quantity": "predicted_gradient_steps_per_s", "backend": DEFAULT_STRATEGY}
            fields["details"] = details | {"ran": "fused", "chosen": mapping == "native-native-cpu"}
            yield predicted(gps * 1.03, size, **fields)


def learnt() -> Iterator[Row]:
    """Two systems on a workload: one of them unlearnt what it had learnt."""
    fields = {
        "suite": "learn",
        "workload": "cartpole-dqn",
        "primitive": "training",
        "device": "cpu",
        "unit": "1",
    }
    for system, end, best in (("placerl", 120.0, 430.0), ("sb3", 300.0, 310.0)):
        details = {"seeds": 5, "failed": 0}
        yield measurement(end, backend=system, quantity=END, details=details, **fields)
        details = details | {"environment_steps": 90_000, "stretch": 3, "stretches": 10}
        yield measurement(best, backend=system, quantity=BEST, details=details, **fields)


def comparison(workload: str, gain: float, verdict: str) -> Iterator[Row]:
    yield compared(gain, verdict, workload=workload, spread=0.06)
    yield compared(1.004, verdict, workload=workload, quantity="null_ratio", spread=0.03)
    loss = {"loss": f"Huber's: {HOSTILE}"} if workload == "cartpole-dqn" else {}
    systems = (
        ("ours", "placerl", 900 * gain, {"placerl": "0.1.0"}, {"fusion": "step"}),
        ("theirs", "sb3", 900.0, {"stable-baselines3": "2.9.2"}, {"replay": "uniform"} | loss),
    )
    for part, system, gps, version, notes in systems:
        details = {"baseline": "sb3", "part": part, "versions": VERSIONS | version, "notes": notes}
        yield trained(gps, 64, suite="compare", workload=workload, backend=system, details=details)


def rows() -> Iterator[Row]:
    gains = ((2.4, "faster"), (1.02, "no verdict"), (0.8, "slower"))
    for (workload, cost), (gain, verdict) in zip(WORKLOADS.items(), gains, strict=True):
        yield from profile(workload, cost)
        yield from training(workload, cost, seed=0)
        yield from comparison(workload, gain, verdict)
    yield from validation("pendulum-td3")
    yield from learnt()
    yield from roofs()
    yield profiled(
        "sum_tree.update",
        5e-6,
        32,
        workload="odd " + HOSTILE,
        status="too_noisy",
        reason="the A/A null differs by 31%",
    )
    yield measurement(
        None,
        suite="compare",
        primitive="training",
        workload="hopper-ddpg",
        backend="rllib",
        quantity="gradient_steps_per_s",
        unit="1/s",
        status="failed",
        reason=f"worker ended with status 1; last lines: {HOSTILE}",
        details={"baseline": "rllib"},
    )


def rows_elsewhere() -> Iterator[Row]:
    """Of another machine: a validation that did not run what the default strategy chose at one batch size."""
    yield from validation("pendulum-td3")
    details = {"mapping": "native-opencl-cpu", "loop": "fused", "chosen": True}
    fields = {"suite": "validation", "workload": "pendulum-td3", "backend": DEFAULT_STRATEGY}
    yield predicted(990.0, 256, quantity="predicted_gradient_steps_per_s", details=details, **fields)
    yield from comparison("cartpole-dqn", 1.5, "faster")


def simulated(content: Content, batch_size: int) -> Content:
    """The same contents, as if the trainings at this batch size had a simulated device."""
    return replace(
        content,
        predictions=tuple(
            replace(p, achieved=replace(p.achieved, provenance=Provenance.SIMULATED))
            if p.achieved and p.batch_size == batch_size
            else p
            for p in content.predictions
        ),
    )


def write_merged(path: Path) -> Path:
    """Makes the store of `write` at `path`, with an earlier run of another machine."""
    with Store.open(path) as store:
        run = store.begin_run("quick", "0123456789abcdef", ELSEWHERE)
        finish_each(store, run, rows_elsewhere())
    return write(path)


def write(path: Path) -> Path:
    """Makes the store at `path`, or adds to it."""
    with Store.open(path) as store:
        old = store.begin_run("quick", "0ld", MACHINE)
        old.finish("old", [profiled("sum_tree.sample", 1.0)])
        run = store.begin_run("quick", "0123456789abcdef", MACHINE)
        finish_each(store, run, rows())
    return path


def claim_page(content: Content, key: str, figures: Mapping[str, Markup] | None = None) -> str:
    """The page of one claim alone: all of them together take seconds."""
    alone = replace(content, verdicts=tuple(one for one in content.verdicts if one.key == key))
    ((_, page),) = pages.render_claims(alone, figures or {})
    return page
