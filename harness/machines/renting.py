"""How long a training takes to a return on machines that are not here, and what it costs: which machine to rent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from scipy import stats

from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.shipped import shipped
from placerl.harness.machines.bundle import Bundle
from placerl.harness.machines.card import Card
from placerl.harness.machines.checking import problems
from placerl.harness.machines.predicting import missing_figures
from placerl.harness.machines.prices import Price
from placerl.harness.machines.sent_file import format_of
from placerl.harness.store.rows import PredictedRate

COMMITTED = shipped("results", "machines")
"""Folder of the bundles that are committed, one for each kind of CPU that was measured."""
_SUFFIX = ".json"
_QUANTILES = (np.arange(199.0) + 0.5) / 199
"""Quantiles of a rate that a time's distribution is made of; an odd number, so that the median is one of them."""


@dataclass(frozen=True)
class Spread:
    """A number with its 95% interval; infinite where more than that share of seeds never arrives."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> "Spread":
        return Spread(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Offer:
    """What a machine would take to train to a return.

    Attributes:
        machine: name of its card.
        rate: gradient steps per second of the best mapping there.
        seconds: seconds of training; None without a learning curve.
        price: the machine's price; None if it is not known.
    """

    machine: str
    rate: PredictedRate
    seconds: Spread | None = None
    price: Price | None = None

    @property
    def cost(self) -> Spread | None:
        """The price of the training, in the price's currency."""
        return self.seconds * (self.price.per_hour / 3600) if self.seconds and self.price else None


def predictable(path: Path) -> Card:
    """Return the card of a file, from which times can be predicted.

    Raises:
        UserError: it is no card, or one that lacks what predictions need.
    """
    card = Card.read(path)
    if missing := missing_figures(card):
        allowed = "a card with them, as `placerl card` measures it"
        raise UserError(path, "figures", f"no value of {', '.join(missing)}", allowed, names=())
    return card


def machine(path: Path) -> tuple[Card, list[Bundle]]:
    """Return the card of a file, and the bundle if it is one.

    Raises:
        UserError: it is neither, a bundle that is refused (`checking`), or no `predictable` card.
    """
    if format_of(path, Bundle.LARGEST_BYTES) != Bundle.FORMAT:
        return predictable(path), []
    bundle = accepted(path)
    return bundle.card, [bundle]


def machines(folder: Path) -> tuple[dict[str, Card], list[Bundle]]:
    """Return the cards of a folder's cards and bundles, by the names of their files, and its bundles.

    Raises:
        UserError: a file is neither, a bundle is refused (`checking`), or there is none.
    """
    found = {path.stem: machine(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    cards = {name: card for name, (card, _) in found.items()}
    bundles = [one for _, own in found.values() for one in own]
    if not cards:
        lacking = "no card" if folder.is_dir() else "no such folder"
        allowed = "a folder of cards or bundles, as `placerl card -o FILE` writes"
        raise UserError(folder, "folder", lacking, allowed)
    return cards, bundles


def known_machines(
    paths: Iterable[Path], workload: str, batch_size: int, others: Iterable[Bundle] = ()
) -> list[Bundle]:
    """Return the bundles of the machines from which others are predicted, each once, the committed ones with them.

    Args:
        paths: files of bundles.
        workload, batch_size: what at least one of them has times of.
        others: further bundles.

    Raises:
        UserError: a file is no bundle, or one that is refused (`checking`), or none has times of the workload.
    """
    every = [*others, *map(accepted, (*paths, *sorted(COMMITTED.glob(f"*{_SUFFIX}"))))]
    known = list({one.hash: one for one in every}.values())
    timed = sorted({f"{row.workload} {row.batch_size}" for one in known for row in one.rows})
    if f"{workload} {batch_size}" not in timed:
        allowed = ", ".join(timed) or "the file of a bundle, as `placerl bundle` writes it"
        found = f"no time of {workload} {batch_size}"
        raise UserError(COMMAND_LINE, OptionName("known"), found, allowed, names=())
    return known


def accepted(path: Path) -> Bundle:
    """Return the bundle of a file.

    Raises:
        UserError: it is none, or one that is refused (`checking`).
    """
    bundle = Bundle.read(path)
    for reason in problems(bundle):
        raise UserError(path, "bundle", reason, "what `placerl check` accepts")
    return bundle


def seconds_to(steps: Sequence[float], rate: PredictedRate) -> Spread:
    """Return the seconds of a training of which the seed is not known yet, at a rate that has an interval.

    Args:
        steps: gradient steps to the return of each seed; infinity for one that never arrived.

    Returns:
        The median of seeds and rates together, and the bounds between which 95% of them lie. The rate is distributed
        as the logarithm of a normal one, with its interval's ends at 2.5% and 97.5%.
    """
    assert rate.value is not None
    low, high = rate.low or rate.value, rate.high or rate.value
    z = stats.norm.ppf(_QUANTILES) / stats.norm.ppf(0.975)
    moved = np.minimum(z, 0) * np.log(rate.value / low) + np.maximum(z, 0) * np.log(high / rate.value)
    seconds = np.divide.outer(np.asarray(steps, np.float64), rate.value * np.exp(moved))
    ends = np.quantile(seconds, (0.5, 0.025, 0.975), method="inverted_cdf")  # between infinities is no number
    return Spread(*map(float, ends))


def ranked(offers: Iterable[Offer]) -> list[Offer]:
    """Return offers from the best to the worst: by cost, those without a price by time after them; else by rate."""

    def key(one: Offer) -> tuple[float, float, float]:
        cost = one.cost.value if one.cost else inf
        return cost, one.seconds.value if one.seconds else inf, -(one.rate.value or 0.0)

    return sorted(offers, key=key)


def offers(
    rates: Mapping[str, PredictedRate], steps: Sequence[float] | None, prices: Mapping[str, Price]
) -> list[Offer]:
    """Return what each machine offers, ranked.

    Args:
        rates: the rate of the best mapping on each machine, by the machine's name.
        steps: as for `seconds_to`; None without a learning curve.
        prices: by the machine's name.
    """
    return ranked(
        Offer(name, rate, None if steps is None else seconds_to(steps, rate), prices.get(name))
        for name, rate in rates.items()
    )
