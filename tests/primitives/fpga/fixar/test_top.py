"""The accelerator behind its host interface: a host that knows registers and streams trains, reads and asks."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.fixar.accelerator import FixarCommand
from placerl.primitives.fpga.fixar.cycles import step_cycles
from placerl.primitives.fpga.fixar.parameters import state_word
from placerl.primitives.fpga.fixar.shape import FixarShape
from placerl.primitives.fpga.fixar.top import REGISTERS, FixarAccelerator
from placerl.primitives.fpga.host import HostAccess
from placerl.primitives.fpga.simulation.compiled_library import Library
from placerl.primitives.fpga.simulation.ports import pack, unpack
from tests.primitives.fpga.fixar.golden import PARTS, GoldenFixar
from tests.primitives.fpga.fixar.simulation import lines_of, stream_of, words_of
from tests.primitives.fpga.fixar.step_inputs import batch, settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason() or "-"),
]

SHAPE = FixarShape(state=4, action=1, hidden=(4, 5), side=4)
BEATS = 5


@cache
def library() -> Library:
    """The accelerator, built once: to elaborate it takes seconds."""
    return simulation.built(FixarAccelerator(SHAPE))


def axis(lines: np.ndarray) -> dict[str, np.ndarray]:
    """Return lines of 32-bit words as a packet."""
    words = (np.asarray(lines).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    last = np.zeros(len(words), np.int64)
    last[-1] = 1
    return {"data": words, "last": last}


@pytest.mark.timeout(300)
def test_a_packet_of_a_wrong_length_is_flagged() -> None:
    model = library().start()
    host = HostAccess(model, REGISTERS)

    def flagged() -> bool:
        found = host.read("events") & 2
        host.write(events=3)
        return bool(found)

    beats = np.zeros((SHAPE.words * BEATS, SHAPE.side), np.int64)
    samples = batch(np.random.default_rng(0), SHAPE, 2)
    whole = axis(stream_of(samples, SHAPE, halves=False))
    model.run({"s_axis_load": axis(beats)}, {})
    assert not flagged()
    model.run({"s_axis_load": axis(beats[:7])}, {})
    assert flagged()
    model.run({"s_axis_load": axis(beats[7:])}, {})
    assert not flagged()
    short, long = ({**whole, "last": np.full(len(whole["last"]), last)} for last in (1, 0))
    for packet, wrong in ((whole, False), (short, True), (whole, False), (long, True), (whole, False)):
        host.write(command=FixarCommand.TRAIN, groups=1, control=1)
        model.run({"s_axis_samples": packet}, {"m_axis_errors": 2})
        model.step(2 * sum(step_cycles(SHAPE, 2, halves=False).values()))
        assert host.read("status") == 0
        assert flagged() == wrong


@pytest.mark.timeout(300)
def test_a_host_trains_acts_and_reads_the_weights_through_registers_and_streams() -> None:
    rng = np.random.default_rng(2)
    golden = GoldenFixar(SHAPE)
    golden.initialise(rng)
    model = library().start()
    host = HostAccess(model, REGISTERS)
    layout = state_word(SHAPE.side)
    beats = pack(layout, words_of(golden)).reshape(-1, SHAPE.side)
    assert len(beats) == SHAPE.words * BEATS
    model.run({"s_axis_load": axis(beats)}, {})
    for step, halves in ((1, False), (2, True)):
        golden.halves = halves
        samples, numbers = batch(rng, SHAPE, 4), settings(step, 4)
        host.write(
            command=FixarCommand.TRAIN,
            halves=halves,
            groups=1 if halves else 2,
            critic_rate=numbers.critic_rate,
            actor_rate=numbers.actor_rate,
            epsilon=numbers.epsilon,
            tau=numbers.tau,
            actor_error=numbers.actor_error & 0xFFFFFFFF,
            control=1,
        )
        lines = stream_of(samples, SHAPE, halves=halves)
        stalls = {"m_axis_errors": [False, True, False]}
        run = model.run({"s_axis_samples": axis(lines)}, {"m_axis_errors": 4}, ready=stalls)
        errors = run.outputs["m_axis_errors"]
        np.testing.assert_array_equal(
            np.asarray(errors["data"]).astype(np.uint32).view(np.int32), golden.step(samples, numbers)
        )
        assert errors["last"].tolist() == [0, 0, 0, 1]
        assert host.read("status") == 1
        assert host.read("events") == 0
        model.step(2 * sum(step_cycles(SHAPE, 4, halves=halves).values()))
        assert (host.read("status"), host.read("events")) == (0, 1)
        assert host.read("cycles") >= sum(step_cycles(SHAPE, 4, halves=halves).values())
        host.write(events=1, command=FixarCommand.DUMP, control=1)
        words = SHAPE.words * BEATS
        run = model.run({}, {"m_axis_dump": words}, ready={"m_axis_dump": [True, False, True]})
        found = np.asarray(run.outputs["m_axis_dump"]["data"]).astype(np.uint32)
        state = unpack(layout, found.reshape(SHAPE.words, -1))
        for part in PARTS:
            np.testing.assert_array_equal(state[part], words_of(golden)[part], err_msg=part)
        last = run.outputs["m_axis_dump"]["last"]
        assert last.sum() == last[-1] == 1
        host.write(events=1)
    state = rng.integers(-(1 << 17), 1 << 17, (1, SHAPE.state))
    host.write(command=FixarCommand.ACT, control=1)
    lines = lines_of(state, 4, 1).reshape(-1, 4)
    stalls = {"m_axis_action": [False, False, True]}
    run = model.run({"s_axis_samples": axis(lines)}, {"m_axis_action": 1}, ready=stalls)
    action = np.asarray(run.outputs["m_axis_action"]["data"]).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(action.ravel(), golden.act(state)[0])
    shifts = host.read("shifts")
    assert [shifts >> 5 * k & 31 for k in range(5)] == [golden.shift(k) for k in range(5)]
