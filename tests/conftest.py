"""Settings that every test shares."""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

import placerl.harness.cluster  # noqa: F401  (before whatever imports Ray, which reads its settings then)
from placerl.harness.measure import control_groups

# Speed is measured in benchmarks; a machine that is busy with something else fails no test: neither by the time that
# an example takes, nor by the time that drawing it takes. Where CI is set, hypothesis' own profile says the same and
# also draws the same inputs each time; everywhere else they are new ones.
if hypothesis.settings.get_current_profile_name() != "ci":
    hypothesis.settings.register_profile(
        "placerl", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("placerl")

# Another name for tests/primitives/fpga, for those who look for the hardware's tests: `pytest tests/fpga`.
collect_ignore = ["fpga"]

# A user's own configuration of Git, such as signed commits, hooks or line endings, changes no test.
os.environ["GIT_CONFIG_GLOBAL"] = str(Path(__file__).with_name("gitconfig"))
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"

# Each process of the tests computes in one thread, and so do those that it starts: small arrays gain nothing from more,
# whose waiting costs the other processes' time. Tests of threads say how many they want.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The processes of pytest-xdist have a terminal of 80 columns, to which nothing that tests read is to be folded.
os.environ.pop("COLUMNS", None)

# What the hardware tools build stays in the checkout, from one run of the tests to the next.
os.environ.setdefault("PLACERL_CACHE", str(Path(__file__).parent.parent / "build" / "cache"))


# Most of what tests make lives for as long as a test: to look for garbage after each 700 objects costs a quarter of
# their time, and finds little.
gc.set_threshold(20_000, 10, 10)


LONGEST = (
    "test_packaging.py",
    "harness/report/test_layout.py",
    "primitives/sum_tree/test_conformance.py",
    "primitives/fpga/tools/test_lint.py",
    "primitives/replay/adapters/test_adapters.py",
    "primitives/fpga/ppo_accelerator/test_top.py",
    "harness/core/test_interrupts.py",
    "primitives/fpga/cartpole_agent/test_golden.py",
    "primitives/fpga/cartpole_agent/test_agent.py",
    "harness/cluster/test_training.py",
    "faults/test_ray_faults.py",
    "fuzz/test_hostile_store.py",
    "harness/plan/test_execution.py",
    "primitives/fpga/fixar/test_accelerator.py",
    "primitives/fpga/map_accelerator/test_accelerator.py",
    "primitives/sum_tree/test_own_process.py",
    "harness/cluster/test_cells.py",
    "primitives/fpga/tools/test_resources.py",
    "primitives/fpga/bench/test_files.py",
    "primitives/fpga/convolution/test_unit.py",
    "harness/report/test_browser.py",
    "harness/cli/test_map.py",
    "test_readme.py",
)
"""Files that take the longest, in this order: begun at the end, one would hold up the whole run."""


@pytest.hookimpl(trylast=True)  # after those that are not run were left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, then the others by their number of tests; a file's tests keep their order."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (place.get(item.path, len(place)), -count[item.path], item.path))


def pytest_collection_finish() -> None:
    """Leaves what is there before the first test out of garbage collections: some million objects, which all stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_control_groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the control groups of this process: a container's quota decides how many cores are used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control_groups, "ROOT", tmp_path_factory.mktemp("no-control-groups"))
        yield


@pytest.fixture
def simulated_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates the cycles of the FPGA: a test's own sizes are not in the committed table."""
    monkeypatch.setenv("PLACERL_SIMULATE", "1")


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk() -> Iterator[None]:
    """Lets no test wait until its files are on the disk: no power fails, and other processes read them before that.

    A test of what is flushed, or of a disk that fails, puts its own function in this place.
    """

    def flush(descriptor: int) -> None:
        os.fstat(descriptor)  # which refuses what is no descriptor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        yield
