from harness.errors import UserError


def test_one_line_names_everything():
    error = UserError("hopper.toml", "replay.capacity", 0, "1 to 2**31")
    assert str(error) == "hopper.toml: replay.capacity: found 0; allowed: 1 to 2**31"


def test_hostile_text_stays_one_short_line():
    line = str(UserError("a\nb", "\x1b[2Jfield", "x" * 10_000, "\u2028end\r"))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 1500
