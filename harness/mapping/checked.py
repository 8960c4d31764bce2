"""How far predictions from a platform's numbers alone are off, where a machine's achieved rates are committed."""

PLATFORM = "h200-server"
"""The machine of the committed runs with an H200, described by its peaks; what its file leaves open is filled in."""
TRAININGS = 63
"""Trainings that each strategy predicts there, each compared with the loop that the strategy describes."""
TIMES_TOO_FAST = {
    "composed-loop": (4.1, 0.70, 27),
    "exhaustive": (3.5, 0.91, 50),
    "map-tpds23": (3.5, 0.91, 50),
    "pearl24": (3.6, 0.71, 36),
}
"""By strategy, predicted divided by achieved rates: the median, the least and the most."""


def said_of(strategy: str) -> str:
    """Say how far a strategy's predictions from a platform's numbers alone were off; empty if it was not checked."""
    if strategy not in TIMES_TOO_FAST:
        return ""
    median, least, most = TIMES_TOO_FAST[strategy]
    return (
        f"From a platform's numbers alone, {strategy} was {median:g} times too fast in the median of {TRAININGS} "
        f"trainings on {PLATFORM}, {least:g} to {most:g} times: quote the order of devices, not the rate."
    )
