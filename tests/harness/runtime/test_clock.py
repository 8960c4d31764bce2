"""The clock of a run is that of its mapping and its parts."""

from types import SimpleNamespace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import HOST, LEARNER, RMM, STORAGE
from placerl.harness.loop.real_time import RealTime
from placerl.harness.loop.virtual_time import Device, VirtualTime
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.clock import simulated_s, time_of, weights_bytes


class Speeds:
    """A platform that says which two devices it was asked for, as a speed."""

    def latency_s(self, source, target):
        return 0.0

    def bytes_per_s(self, source, target):
        return {"cpu": 2.0, "fpga": 3.0, "fpga:u50": 5.0}[source] * {
            "cpu": 7.0,
            "fpga": 11.0,
            "fpga:u50": 13.0,
        }[target]


PART = SimpleNamespace(simulated_s=0.0)


def test_the_links_of_a_run_are_those_between_the_devices_of_its_mapping():
    time = time_of(Mapping.parse("fpga:u50-fpga-fpga"), PART, PART, Speeds)
    assert time.link_s(RMM, LEARNER, 390) == 390 / (3 * 13)
    assert time.link_s(LEARNER, RMM, 550) == 550 / (5 * 11)
    assert time.link_s(HOST, RMM, 220) == 220 / (2 * 11)
    assert time.link_s(LEARNER, HOST, 350) == 350 / (5 * 7)
    assert time.link_s(HOST, LEARNER, 260) == 260 / (2 * 13)
    assert time.link_s(STORAGE, LEARNER, 390) == 390 / (3 * 13)
    assert time.link_s(RMM, STORAGE, 330) == 330 / (3 * 11)
    assert time.link_s(HOST, STORAGE, 220) == 220 / (2 * 11)
    on_host = time_of(Mapping.parse("fpga:u50-native-cpu"), PART, object(), Speeds)
    assert on_host.link_s(STORAGE, LEARNER, 260) == 260 / (2 * 13)
    assert on_host.link_s(RMM, STORAGE, 100) == 0
    assert on_host.link_s(HOST, STORAGE, 100) == 0


@pytest.mark.parametrize(
    ("mapping", "provenance"),
    [
        ("fpga:u50-native-cpu", Provenance.MODELLED),
        ("torch-fpga-fpga", Provenance.SIMULATED),
        ("torch-native-cpu", Provenance.SIMULATED),  # a part that counts cycles all the same
    ],
)
def test_virtual_time_is_of_the_provenance_of_its_backends(mapping, provenance):
    assert time_of(Mapping.parse(mapping), PART, PART, Speeds).provenance is provenance


def test_without_a_simulated_part_the_time_is_real_and_no_link_is_asked_for():
    time = time_of(
        Mapping.parse("torch-native-cpu"), object(), object(), lambda: pytest.fail("asked for links")
    )
    assert type(time) is RealTime


def test_the_weights_of_a_simulated_learner_are_counted_and_no_other_s():
    sizes = {"a": SimpleNamespace(nbytes=30), "b": SimpleNamespace(nbytes=4)}
    learner = SimpleNamespace(parameters=lambda: sizes)
    assert weights_bytes(VirtualTime({LEARNER: Device(lambda: 0.0, "gpu")}), learner) == 34
    assert weights_bytes(RealTime(), learner) == 0


def test_a_part_tells_its_seconds_itself_or_by_its_tree_or_its_executable():
    counted = SimpleNamespace(cycles=600, clock_hz=300.0)
    assert simulated_s(SimpleNamespace(simulated_s=4))() == 4.0
    assert simulated_s(counted)() == 2.0
    assert simulated_s(SimpleNamespace(tree=counted))() == 2.0
    assert simulated_s(SimpleNamespace(executable=SimpleNamespace(simulated_s=5)))() == 5.0
    assert simulated_s(SimpleNamespace(cycles=600)) is None, "cycles without a clock are no seconds"
    assert simulated_s(SimpleNamespace(tree=None)) is None


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("fpga:u200-native-cpu", {("cpu", "fpga:u200"), ("fpga:u200", "cpu")}),
        ("native-fpga:u200-cpu", {("cpu", "fpga:u200"), ("fpga:u200", "cpu")}),
        ("fpga:u200-fpga:u200-fpga:u200", {("cpu", "fpga:u200"), ("fpga:u200", "cpu"), ("fpga:u200",) * 2}),
        ("torch:cuda-fpga:u200-cpu", {("cpu", "fpga:u200"), ("fpga:u200", "cpu")}),
        ("native-native-cpu", set()),
    ],
)
def test_only_links_of_simulated_devices_are_asked_for(mapping, expected):
    """A real device's transfers are part of what is measured."""
    asked = set()

    class Asked:
        def latency_s(self, source, target):
            return 0.0

        def bytes_per_s(self, source, target):
            asked.add((source, target))
            return 1.0

    mapping = Mapping.parse(mapping)
    parts = [
        SimpleNamespace(simulated_s=0.0) if target.backend == "fpga" else object()
        for target in (mapping.learner, mapping.rmm)
    ]
    time_of(mapping, *parts, Asked)
    assert asked == expected


def test_cycles_are_seconds_at_the_clock_whenever_they_are_read():
    counted = SimpleNamespace(cycles=600, clock_hz=300e6)
    told = simulated_s(SimpleNamespace(tree=counted))
    counted.cycles = 1200
    assert told() == pytest.approx(4e-6)
