"""Settings that every test shares."""

import gc
import os
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
