import pytest

from harness.mapping.schedule import ACTORS, HOST, Call, Round


def test_on_a_host_alone_a_round_is_the_sum_of_its_calls() -> None:
    calls = {name: Call(HOST, seconds) for name, seconds in zip(("act", "insert"), (3.0, 1.0), strict=True)}
    calls |= {"sample": Call(HOST, 2.0), "learn": Call(HOST, 10.0), "update": Call(HOST, 0.5)}
    assert Round(**calls, gradient_steps=2, host_s=0.25).period_s == pytest.approx(4.25 + 2 * 12.5)


def test_actors_beside_the_rest_cost_what_they_take_longer() -> None:
    rest = {"insert": Call(HOST, 1.0), "learn": Call(HOST, 2.0), "gradient_steps": 4, "overlapped": True}
    assert Round(act=Call(ACTORS, 3.0), **rest).period_s == pytest.approx(8 + 1)
    assert Round(act=Call(ACTORS, 9.0), **rest).period_s == pytest.approx(9 + 1)


def test_a_device_s_priority_update_hides_behind_the_actor() -> None:
    """Only sampling waits for it; the host acts as soon as the learner has ended."""
    calls = {
        "act": Call(HOST, 5.0),
        "insert": Call("fpga", 1.0),
        "sample": Call("fpga", 2.0),
        "learn": Call("gpu", 10.0),
        "update": Call("fpga", 4.0),
    }
    assert Round(**calls).period_s == pytest.approx(5 + 1 + 2 + 10)
    slow = calls | {"update": Call("fpga", 7.0)}
    assert Round(**slow).period_s == pytest.approx(7 + 1 + 2 + 10)
