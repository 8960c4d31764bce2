"""What is chosen next to a mapping."""

from harness.runtime.options import STRICT, Options


def test_only_what_differs_from_the_strict_loop_is_told():
    assert STRICT.given() == {}
    assert str(STRICT) == ""
    options = Options(overlap=8, processes=2)
    assert options.given() == {"overlap": 8, "processes": 2}
    assert str(options) == "processes=2,overlap=8"
