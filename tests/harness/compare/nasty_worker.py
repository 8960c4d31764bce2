"""A worker that misbehaves as its first argument says; run as a process by `test_protocol` and `test_rounds`."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOOD = {
    "gradient_steps": 10,
    "environment_steps": 20,
    "wall_s": 0.5,
    "episode_returns": [1.0],
    "versions": {"nasty": "1"},
}


ANSWERS = {
    *("good", "flushable", "rate", "threaded", "collects", "uneven", "device", "slower", "still", "terms"),
    *("parts", "cycles"),
}
"""What only answers, so that it needs no process (`Here`)."""


def answer(**changes):
    print(json.dumps(GOOD | changes), flush=True)


def write(path, number):
    """A file that is there only once it is whole."""
    with open(path + ".new", "w") as file:
        file.write(str(number))
    os.rename(path + ".new", path)


def daemon(path):
    """A grandchild that leaves the session and ignores SIGTERM; its process id is written to `path`."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            write(path, os.getpid())
            time.sleep(3600)
        os._exit(0)
    os.wait()
    while not os.path.exists(path):
        time.sleep(0.01)


def act(what, arguments, number, job):
    """Does what `what` says with a job, the how manieth from 0."""
    if what == "good":
        answer(gradient_steps=job["gradient_steps"], notes={"seed": str(job["seed"])})
    elif what == "flushable":  # gradient steps a second, without and with subnormal numbers flushed
        rate = float(arguments[job["flush_subnormals"]])
        answer(gradient_steps=job["gradient_steps"], wall_s=job["gradient_steps"] / rate)
    elif (
        what == "rate"
    ):  # gradient steps a second, with some noise; crashes after so many jobs; learns so much a job
        rate, jobs = float(arguments[0]), int(arguments[1])
        gain = float(arguments[2]) if len(arguments) > 2 else 0.0
        if number == jobs:
            raise RuntimeError("the network exploded")
        wall_s = job["gradient_steps"] / rate * (1 + 0.02 * (number % 5))
        answer(
            gradient_steps=job["gradient_steps"],
            environment_steps=2 * job["gradient_steps"],
            wall_s=wall_s,
            episode_returns=[1 + gain * number] * 2,
        )
    elif what == "threaded":
        # gradient steps a second with one thread, and with two; learns from job to job
        steps, rate = job["gradient_steps"], float(arguments[job["threads"] - 1])
        learnt = [1.0 + number] * 2
        did = {"gradient_steps": steps, "environment_steps": 2 * steps, "wall_s": steps / rate}
        answer(**did, episode_returns=learnt)
    elif what == "collects":
        # gradient steps a second, and environment steps a gradient step, with some noise
        steps, rate, each = job["gradient_steps"], float(arguments[0]), int(arguments[1])
        wall_s = steps / rate * (1 + 0.02 * (number % 5))
        answer(gradient_steps=steps, environment_steps=each * steps, wall_s=wall_s)
    elif what == "uneven":  # gradient steps a second; half of the jobs are slower, so many in a row
        rate, slower, in_a_row = float(arguments[0]), float(arguments[1]), int(arguments[2])
        wall_s = job["gradient_steps"] / rate * (slower if number // in_a_row % 2 else 1)
        answer(gradient_steps=job["gradient_steps"], wall_s=wall_s * (1 + 1e-5 * number))
    elif what == "device":  # of its networks, in a note
        answer(gradient_steps=job["gradient_steps"], notes={"device": job["device"]})
    elif what == "slower":  # from job to job
        wall_s = job["gradient_steps"] / 1000 * (1 + 0.01 * number)
        answer(gradient_steps=job["gradient_steps"], wall_s=wall_s)
    elif what == "still":  # takes no environment steps
        answer(gradient_steps=job["gradient_steps"], environment_steps=0, wall_s=job["gradient_steps"] / 1000)
    elif what == "terms":  # of its time, in turn
        terms_s = json.loads(arguments[number % len(arguments)])
        answer(gradient_steps=job["gradient_steps"], wall_s=job["gradient_steps"] / 1000, terms_s=terms_s)
    elif what == "parts":  # of the time, the learner has so much in even jobs, and so much in odd ones
        wall_s = job["gradient_steps"] / 100
        learner_s = float(arguments[number % 2]) * wall_s
        terms_s = {"learner": learner_s, "environment": wall_s - learner_s}
        answer(gradient_steps=job["gradient_steps"], wall_s=wall_s, terms_s=terms_s)
    elif what == "cycles":  # of a replay alone, so many a second
        wall_s = job["gradient_steps"] / float(arguments[0])
        terms_s = {"insert": wall_s / 2, "sample": wall_s / 4, "update": wall_s / 4}
        steps = job["gradient_steps"]
        answer(gradient_steps=steps, environment_steps=2 * steps, wall_s=wall_s, terms_s=terms_s)
    elif what == "crash":
        raise RuntimeError("the network exploded")
    elif what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "exit":
        sys.exit(0)
    elif what == "hang":
        print("thinking", file=sys.stderr, flush=True)
        time.sleep(3600)
    elif what == "ignore-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif what == "invalid":
        print("Using cpu device", flush=True)
    elif what == "nan":
        answer(wall_s=float("nan"))
    elif what == "nan-return":
        answer(episode_returns=[float("nan")])
    elif what == "short":
        answer(gradient_steps=job["gradient_steps"] - 1)
    elif what == "twice":
        line = json.dumps(GOOD) + "\n"
        os.write(1, 2 * line.encode())
        time.sleep(3600)
    elif what == "late":  # the second line only after `path`.go is there
        answer()
        while not os.path.exists(arguments[0] + ".go"):
            time.sleep(0.01)
        answer()
        write(arguments[0], 1)
    elif what == "refuse":
        print(json.dumps({"error": "sac is not supported"}), flush=True)
    elif what == "flood":
        while True:
            os.write(1, b"x" * 65536)
    elif what == "stderr-flood":
        while True:
            os.write(2, b"y" * 65536)
    elif what == "memory":  # of which it has little left
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        bytearray(2**30)
    elif what == "forks":  # children that start children, all deaf to SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(4):
            os.fork()
        time.sleep(3600)
    elif what == "noisy":
        sys.stderr.write("".join(f"line {i}\n" for i in range(100_000)))
        sys.stderr.write("z" * 1_000_000)
        sys.stderr.flush()
        raise SystemExit(3)
    elif what == "daemon":
        daemon(arguments[0])
        answer()
    elif what == "daemon-crash":
        daemon(arguments[0])
        os._exit(7)
    elif what.startswith("litter"):
        write(arguments[0], tempfile.mkstemp()[1])
        if what == "litter-killed":
            os.kill(os.getpid(), signal.SIGKILL)
        answer()
    elif what == "child-then-hang":  # in the first job a child, in the second no answer
        if number:
            time.sleep(3600)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        write(arguments[0], child.pid)
        answer()


def main(what, *arguments):
    print("started", file=sys.stderr, flush=True)
    for number, line in enumerate(sys.stdin):
        act(what, arguments, number, json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
