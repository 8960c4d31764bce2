"""The tables of `placerl doctor` show what is there, and why something is not usable."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from placerl.harness.cli.machine_tables import show
from placerl.harness.measure.noise import Noise
from placerl.harness.platforms.machine import Backend, Cpu, Machine

CPU = Cpu(
    model="a processor", architecture="x86_64", physical_cores=None, logical_cores=2, usable_cores=1,
    simd_level="unknown", vector_flags=(), highest_mhz=None, caches=(), memory_bytes=2**34,
)  # fmt: skip
NOISE = Noise(1.5, 1.5, 1.0, 1.1, 0.4, 0.0, 1.2, None)
MACHINE = Machine(
    fingerprint="f", cpu=CPU, accelerators=(), backends=(), links=(), noise=NOISE, power=(), system="Linux",
    versions={}, problems=("CUDA: OSError: driver [on] fire",),
)  # fmt: skip


def shown(machine: Machine) -> str:
    text = io.StringIO()
    show(machine, Console(file=text, width=200))
    return text.getvalue()


def test_a_backend_that_cannot_run_has_its_reason_with_brackets() -> None:
    backend = Backend(primitive="sum_tree", name="cuda", available=False, reason="no [cuda] driver")
    assert "no: no [cuda] driver" in shown(MACHINE.model_copy(update={"backends": (backend,)}))


def test_a_probe_that_failed_is_told() -> None:
    assert "could not look: CUDA: OSError: driver [on] fire" in shown(MACHINE)


def test_a_quota_is_named() -> None:
    assert "quota" not in shown(MACHINE)
    cpu = CPU.model_copy(update={"quota_cores": 0.5, "quota_file": "/sys/fs/cgroup/cpu.max"})
    text = shown(MACHINE.model_copy(update={"cpu": cpu}))
    assert "0.5 cores (/sys/fs/cgroup/cpu.max)" in text
    assert "1 usable of 2" in text


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (NOISE, "score 1.50: not quiet (quiet is below 1.05); others keep 0.4 cores busy"),
        (replace(NOISE, score=1.01, busy_cores=None), "score 1.01: quiet (quiet is below 1.05) "),
    ],
)
def test_the_noise_has_a_score_and_its_limit(noise: Noise, said: str) -> None:
    assert said in shown(MACHINE.model_copy(update={"noise": noise}))
