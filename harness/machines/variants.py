"""Variants of this machine, by which predictions from cards are judged: fewer cores, a quota, a neighbour.

Each variant is measured in a process of its own, which writes a bundle:

    python -m placerl.harness.machines.variants BUNDLE WORKLOAD BATCH_SIZE SECONDS [CORE...]
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from placerl.harness.core.progress import silent
from placerl.harness.machines.bundle import Bundle
from placerl.harness.measure.conditions import usable_cores

PERIOD_S = 0.1
"""Period of a quota, as the kernel's."""
START_S, CALM = 120.0, 6.0
"""A process may take this many seconds, and this many times its budgets, before it counts as stuck."""
_NARROW = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
}
_NEIGHBOUR = """
import sys
from placerl.harness._experiments import Copies
memory = Copies(2**27)
print("copying", flush=True)
while True:
    memory.run(1)
"""


@dataclass(frozen=True)
class Variant:
    """This machine with less of something.

    Attributes:
        name: what it is.
        cores: how many cores it may use at most; None: all.
        environment: variables of its process.
        neighbour: whether another process copies memory meanwhile, on the first core.
        share: fraction of each period in which it runs, as under a quota.
    """

    name: str
    cores: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    neighbour: bool = False
    share: float = 1.0


VARIANTS = {
    one.name: one
    for one in (
        Variant("as it is"),
        Variant("one core", cores=1),
        Variant("AVX2 in PyTorch and NumPy", environment=_NARROW),
        Variant("a quota of 60%", share=0.6),
        Variant("a neighbour that copies", neighbour=True),
    )
}


def measured(variant: Variant, workload: str, batch_size: int, budget_s: float, path: Path) -> Bundle:
    """Measure the card and the primitives of a variant, write its bundle and return it.

    Args:
        budget_s: seconds for the card's probes, and as many for the primitives.

    Raises:
        RuntimeError: the process failed; the message holds its last line.
    """
    cores = usable_cores()[-variant.cores :] if variant.cores else usable_cores()
    words = [str(path), workload, str(batch_size), str(budget_s), *map(str, cores)]
    command = [sys.executable, "-m", "placerl.harness.machines.variants", *words]
    with ExitStack() as around:
        if variant.neighbour:
            around.enter_context(_neighbour(usable_cores()[0]))
        process = subprocess.Popen(
            command, env={**os.environ, **variant.environment}, stderr=subprocess.PIPE, text=True
        )
        around.callback(process.kill)
        if variant.share < 1:
            around.enter_context(_held_back(process, variant.share))
        _, said = process.communicate(timeout=START_S + CALM * budget_s)
    if process.returncode:
        raise RuntimeError(f"{variant.name}: {(said.strip().splitlines() or ['no message'])[-1]}")
    return Bundle.read(path)


@contextmanager
def _neighbour(core: int) -> Iterator[None]:
    """Copy memory on a core, in another process, during a `with` block."""
    with subprocess.Popen([sys.executable, "-c", _NEIGHBOUR], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            os.sched_setaffinity(process.pid, {core})
            yield
        finally:
            process.kill()


@contextmanager
def _held_back(process: "subprocess.Popen[str]", share: float) -> Iterator[None]:
    """Stop a process for the rest of each period, during a `with` block; a container's quota needs rights."""
    over = threading.Event()

    def hold() -> None:
        while not over.wait(share * PERIOD_S) and process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            over.wait((1 - share) * PERIOD_S)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main(arguments: Sequence[str]) -> None:
    """Measure this process's machine, and write its bundle.

    Args:
        arguments: path of the bundle, workload, batch size, seconds, and the cores to use.
    """
    path, name, batch_size, budget_s, *cores = arguments
    os.sched_setaffinity(0, set(map(int, cores)))  # before PyTorch counts its threads

    from placerl.harness import workloads
    from placerl.harness.machines import measuring
    from placerl.harness.machines.bundle import bundle
    from placerl.harness.profile import measured as profile

    item = workloads.load(name)
    card = measuring.measure(silent, float(budget_s))
    rows = profile.profile(item, int(batch_size), float(budget_s), silent)
    bundle(card, rows).write(Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
