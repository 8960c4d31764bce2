"""The papers' metrics of throughput, portability and code, computed from throughputs and a few counts."""

from collections.abc import Iterable, Sequence


def experiences_per_s(gradient_steps_per_s: float, batch_size: int) -> float:
    """Return EPS, the experiences that training consumes per second: gradient steps/s times batch size (PRL 6.1)."""
    return gradient_steps_per_s * batch_size


def per_watt(throughput_per_s: float, watts: float) -> float:
    """Return the throughput divided by the power, 1/J (MAP Table VII, FIX Table II).

    Args:
        watts: power, more than 0 W.

    Raises:
        ValueError: `watts` is not above 0.
    """
    if not watts > 0:
        raise ValueError(f"watts: found {watts}; allowed: more than 0")
    return throughput_per_s / watts


def portability(throughputs_per_s: Sequence[float | None]) -> float:
    """Return PRL's performance portability (6.4): the harmonic mean of throughputs, or 0 if one is not supported.

    Args:
        throughputs_per_s: at least one. Either one for each device assignment of a platform
            (`assignments.Assignment`; several backends of one device count once), or that of the best mapping of
            each platform. None or 0: the system does not support it.

    Raises:
        ValueError: there is no throughput, or one is negative.
    """
    if not throughputs_per_s:
        raise ValueError("throughputs_per_s: found none; allowed: one or more")
    supported = [value for value in throughputs_per_s if value]
    if any(value < 0 for value in supported):
        raise ValueError(f"throughputs_per_s: found {min(supported)}; allowed: 0 or more")
    if len(supported) < len(throughputs_per_s):
        return 0.0
    return len(supported) / sum(1 / value for value in supported)


def code_divergence(one: Iterable[str], other: Iterable[str]) -> float:
    """Return PRL's code divergence of the user code for two platforms (6.5): 1 - |shared lines| / |all lines|.

    The platforms must differ in their devices, such as a CPU and a CPU with an FPGA. Code for two backends of one
    device is not a case of code divergence. Lines are compared as sets, without leading and trailing spaces; empty
    lines are ignored.

    Returns:
        0 if one source serves both, 1 if nothing is shared.

    Raises:
        ValueError: neither source has a line.
    """
    a, b = ({line.strip() for line in lines} - {""} for lines in (one, other))
    if not a | b:
        raise ValueError("one, other: found no line; allowed: at least one")
    return 1 - len(a & b) / len(a | b)


def regret(chosen_per_s: float, throughputs_per_s: Iterable[float]) -> float:
    """Return what a strategy's choice loses: 1 - throughput(chosen) / throughput(best), 0 to 1.

    Args:
        throughputs_per_s: throughputs measured under every mapping; may include that of the chosen one.
    """
    return 1 - chosen_per_s / max([chosen_per_s, *throughputs_per_s])
