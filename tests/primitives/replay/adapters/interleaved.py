"""What the training programs share: options, interleaved rounds, and a result as one line of JSON."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any


def options(description: str, algorithms: tuple[str, ...]) -> argparse.Namespace:
    """--algorithm, --steps (environment steps of the training that is checked) and --rounds (of the timing)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--algorithm", choices=algorithms, default=algorithms[0])
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=0)
    return parser.parse_args()


def interleaved(sides: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Gradient steps per second of each side's calls, which return gradient steps; the sides take turns."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, advance in sides.items():
            start_s = time.perf_counter()
            steps = advance()
            rate = steps / (time.perf_counter() - start_s)
            if number:  # the first round warms up
                rates[name].append(rate)
    return rates


def report(result: dict[str, Any], rates: dict[str, list[float]]) -> None:
    """Prints the result with the rates and the median of their ratios round by round."""
    if rates and all(rates.values()):
        own, ours = rates["own"], rates["ours"]
        result |= {
            "own_gradient_steps_per_s": round(statistics.median(own), 1),
            "ours_gradient_steps_per_s": round(statistics.median(ours), 1),
            "ratio": round(statistics.median(b / a for a, b in zip(own, ours, strict=True)), 3),
            "rounds": len(own),
        }
    print(json.dumps(result))
