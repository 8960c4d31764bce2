"""Says how many inputs each test has tried."""

from tests.fuzz.fuzzing import TRIED


def pytest_terminal_summary(terminalreporter):
    for test, inputs in sorted(TRIED.items()):
        terminalreporter.write_line(f"{test}: {inputs:,} inputs")
