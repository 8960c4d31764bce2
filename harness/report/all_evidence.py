"""Writes the page of verdicts over the evidence of all machines: every committed reference run, newest first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from placerl.harness import papers
from placerl.harness.papers.base import Outcome, Verdict
from placerl.harness.papers.device_times import GPU, WORDS
from placerl.harness.papers.machines import JointVerdict, judged
from placerl.harness.report import machine_facts
from placerl.harness.report.markdown_text import code, escaped
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference

UNDECIDED = (Outcome.NOT_RUN, Outcome.NO_VERDICT)


def verdicts(references: Sequence[Reference]) -> list[JointVerdict]:
    """Return the verdict on each claim over all references."""
    return judged(reference.all_rows(references))


def counted(joint: Sequence[JointVerdict]) -> str:
    """Return how many claims have each outcome, as text."""
    counts = Counter(one.outcome for one in joint)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])


def page(joint: Sequence[JointVerdict], references: Sequence[Reference]) -> str:
    """Return the page in Markdown: the machines, and a line for each claim."""
    letters = machine_facts.letters([one.run for one in references])
    lines = [
        "# Verdicts over all evidence",
        "",
        "Every claim is judged on each machine whose runs are committed, with one attempt at each measurement, the "
        "last of the largest tier; clock cycles and counts, which are the same everywhere, are judged with the rows of "
        "every machine. "
        "[Verdicts](../verdicts.md) says what each word requires.",
        "",
        f"Of {len(joint)} claims: {counted(joint)}.",
        "",
        *_machines(references, letters),
    ]
    columns = ("claim", "statement", "verdict", "on the machines", "what would decide it")
    lines += by_paper(columns, ((one.claim.paper, _line(one, letters)) for one in joint))
    return "\n".join(lines)


def by_paper(columns: Sequence[str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a section for each paper, which has its title and a table.

    Args:
        rows: the paper's key and the text of each row, in the order of the tables.
    """
    listed = list(rows)
    for key, title in papers.titles().items():
        yield from (f"## {key}", "", title, "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
        yield from (text for paper, text in listed if paper == key)
        yield ""


def _machines(references: Sequence[Reference], letters: dict[str, str]) -> list[str]:
    lines = ["| machine | what it is | runs |", "|---|---|---|"]
    for fingerprint, letter in letters.items():
        runs = [one for one in references if one.run.fingerprint == fingerprint]
        listed = ", ".join(
            f"{code(one.name)} ({escaped(one.run.started_at[:10])}, {code(one.run.revision[:12])})"
            for one in runs
        )
        lines.append(f"| {letter} | {escaped(machine_facts.in_a_line(runs[-1].run.machine))} | {listed} |")
    return [*lines, ""]


def _line(one: JointVerdict, letters: dict[str, str]) -> str:
    by_outcome: dict[Outcome, list[str]] = {}
    for machine, verdict in one.by_machine.items():
        by_outcome.setdefault(verdict.finding.outcome, []).append(letters.get(machine, "all"))
    machines = "; ".join(f"{', '.join(sorted(where))}: {outcome}" for outcome, where in by_outcome.items())
    missing = ""
    if one.outcome in UNDECIDED:  # commands in these sentences of our own stay commands
        missing = escaped(_missing(list(one.by_machine.values()))).replace("\\`", "`")
    return f"| {one.claim.key} | {escaped(one.claim.statement)} | {one.outcome} | {machines} | {missing} |"


def _missing(verdicts: Sequence[Verdict]) -> str:
    """Return what would decide a claim: of the machine that came nearest, and of those the first.

    Among machines that could not run it, those with a CUDA device came nearer, then those with more measurements.
    """
    undecided = [one.finding for one in verdicts if one.finding.outcome is Outcome.NO_VERDICT]
    if undecided:
        return undecided[0].decides or undecided[0].explanation
    return min(verdicts, key=lambda one: (WORDS[GPU] in one.needs, -len(one.rows))).needs
