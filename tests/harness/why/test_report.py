"""The report is whole at 60 columns, and as JSON."""

import json

import numpy as np

from placerl.harness.why import report
from placerl.harness.why.profile import profile
from placerl.harness.why.recording import MAIN, Recording, Steps
from placerl.harness.why.stacks import Frame, Stack

FOLDER = "/home/somebody/projects/reinforcement-learning/experiments/2026"
LONG = Frame("Collector.collect_a_few_more", f"{FOLDER}/{'deep/' * 8}train.py", 1234)
BATCH = Frame("Buffer.sample", f"{FOLDER}/buffer.py", 12)


def recorded() -> Recording:
    steps = Steps(np.array([[100, 400], [400, 100]]), np.ones((2, 2)))
    facts = [{"fact": "environment", "kind": "SyncVectorEnv", "count": 4}, {"fact": "threads", "torch": 2}]
    stacks = [Stack(1, 1, (LONG,), 30), Stack(1, 1, (BATCH,), 69), Stack(1, 1, (LONG, BATCH), 1)]
    return Recording(
        ["python", "train.py"], seconds=10.0, process=1, stacks=stacks, steps={MAIN: steps}, facts=facts,
        cores=8, cores_used=1.93, busy_threads=3, problems=["interrupted: what was seen until then is shown"],
    )  # fmt: skip


def test_the_report_in_words() -> None:
    lines = list(report.lines(recorded(), profile(recorded().stacks, 1)))
    assert max(map(len, lines)) <= report.WIDTH
    text = "\n".join(lines)
    for words in ("train.py: 10 s of training, 100 samples", "200 environment steps per second", "(PyTorch: 2)",
                  "50 optimizer steps", "1.9 of 8 cores", "note: interrupted",
                  "train.py:1234 Collector.collect_a_few_more"):  # fmt: skip
        assert words in text


def test_the_report_as_json() -> None:
    found = json.loads(json.dumps(report.as_json(recorded(), profile(recorded().stacks, 1))))
    assert sum(found["shares"].values()) == 1
    line = {"piece": "other code", "file": BATCH.file, "line": 12, "function": "Buffer.sample", "share": 0.7}
    assert found["lines"][0] == line
    assert found["per_second"] == {"environment steps": 200.0, "optimizer steps": 50.0}
