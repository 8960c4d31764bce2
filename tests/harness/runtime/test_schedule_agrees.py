"""The schedule of a model is the one that the runtime's virtual clock makes of the same seconds."""

import pytest

from harness.mapping.schedule import HOST, Call, Round
from tests.harness.runtime.test_virtual_time import INSERT_S, LEARN_S, SAMPLE_S, UPDATE_S, training

NO_TIME = Call(HOST, 0.0)


@pytest.mark.parametrize("boards", [1, 2])
@pytest.mark.parametrize(("learner", "rmm"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("overlap", [0, 4])
def test_it_agrees_with_the_runtime(short, boards: int, learner: bool, rmm: bool, overlap: int) -> None:
    options = {"overlap": overlap} if overlap else {}
    made = training(short("cartpole-dqn"), boards=boards, learner=learner, rmm=rmm, **options)
    names = [device.name for device in made._time._devices.values()]
    on = dict(zip([*["learner"] * learner, *["rmm"] * rmm], names, strict=True))

    def call(unit: str, seconds: float) -> Call:
        return Call(on[unit], seconds) if unit in on else NO_TIME

    expected = Round(
        act=NO_TIME,
        insert=call("rmm", INSERT_S),
        sample=call("rmm", SAMPLE_S),
        learn=call("learner", LEARN_S),
        update=call("rmm", UPDATE_S),
        gradient_steps=max(overlap, 1),
        overlapped=bool(overlap),
    )
    made.warm_up()
    made.advance(8)
    progress = made.advance(80)
    taken_s = progress.wall_s / progress.gradient_steps
    assert taken_s == pytest.approx(expected.period_s / max(overlap, 1), rel=5e-3)
    made.close()
