"""Made-up times of the pieces, and a platform, that several tests of the composed loop use."""

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, Loop, Mapping, PerformanceTable, Prediction, Problem, Target
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from tests.harness.mapping.links import Links

PLATFORM = platforms.load("map-tpds23")
PIECES_S = {
    ("round.collect", "torch"): 60e-6,
    ("round.collect", "native"): 50e-6,
    ("round.insert", "native"): 2e-6,
    ("round.insert", "flat"): 20e-6,
    ("round.sample", "native"): 10e-6,
    ("round.sample", "flat"): 100e-6,
    ("round.update", "native"): 5e-6,
    ("round.update", "flat"): 50e-6,
    ("round.learn", "torch"): 1e-3,
    ("round.learn", "native"): 5e-4,
    ("fused_round.collect", "native"): 45e-6,
    ("fused_round.insert", "native"): 1.5e-6,
    ("fused_round.steps", "native"): 4e-4,
    ("round.runtime", "cpu"): 3e-6,
    ("fused_round.runtime", "cpu"): 1e-6,
}


def table(times_s: dict[tuple[str, str], float]) -> PerformanceTable:
    return PerformanceTable(
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.MEASURED)
        for (name, target), time_s in times_s.items()
    )


OVERLAPPED_S = {
    ("overlapped_round.collect", "cpu"): 2e-3,
    ("overlapped_round.insert", "native"): 20e-6,
    ("overlapped_round.publish", "native"): 10e-6,
    ("overlapped_round.publish", "torch"): 50e-6,
    ("overlapped_round.steps", "native"): 10e-3,
}


RELAXED_S = {
    ("relaxed_round.sample", "native"): 60e-6,
    ("relaxed_round.learn", "native"): 420e-6,
    ("relaxed_round.update", "native"): 40e-6,
    ("relaxed_round.runtime", "cpu"): 30e-6,
}


SPEEDS = {("cpu", "fpga"): 1e6, ("fpga", "cpu"): 2e6, ("fpga", "fpga"): 4e6}
LINKS = Links(lambda *pair: SPEEDS[pair])  # host and FPGA have a memory and a link of these speeds


def simulated(times_s: dict[tuple[str, str], float]) -> list[Entry]:
    return [
        Entry(name, Target.parse(target), 32, time_s, time_s, time_s, Provenance.SIMULATED)
        for (name, target), time_s in times_s.items()
    ]


ON_DEVICE_S = {
    ("round.insert", "fpga"): 1e-3,
    ("round.sample", "fpga"): 2e-3,
    ("round.learn", "fpga"): 30e-3,
    ("round.update", "fpga"): 4e-3,
}
ON_HOST_S = {
    ("round.collect", "fpga"): 5e-3,
    ("round.collect", "native"): 6e-3,
    ("round.learn", "native"): 7e-3,
    ("round.insert", "native"): 8e-3,
    ("round.sample", "native"): 9e-3,
    ("round.update", "native"): 10e-3,
    ("round.gather", "cpu"): 11e-3,
    ("round.write", "cpu"): 12e-3,
    ("round.runtime", "cpu"): 13e-3,
    ("overlapped_round.insert", "fpga"): 14e-3,
    ("overlapped_round.insert", "native"): 15e-3,
    ("overlapped_round.collect", "cpu"): 16e-3,
    ("overlapped_round.publish", "native"): 17e-3,
    ("overlapped_round.write", "cpu"): 18e-3,
}
PROFILE = PerformanceTable([*table(ON_HOST_S), *simulated(ON_DEVICE_S)])
# Of two actors and an update interval of 1, so that a round has two gradient steps; 32 items of 100 bytes.
SMALL = Problem(32, 25, actors=2, acting_words=50)


def predicted(mapping: str, loop: Loop = Loop.FUSED, profile: PerformanceTable = PROFILE) -> Prediction:
    return ComposedLoop(loop).predict(profile, SMALL, LINKS, Mapping.parse(mapping))


STORED_S = {
    ("opencl_round.collect", "opencl"): 70e-6,
    ("opencl_round.learn", "opencl"): 3e-4,
    ("opencl_round.insert", "native"): 21e-6,
    ("opencl_round.sample", "native"): 31e-6,
    ("opencl_round.update", "native"): 6e-6,
}
