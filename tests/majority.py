"""Judges what is random by a majority of seeds, and bounds how often that judgement errs.

Rounding differs between processors, and training amplifies it: a seed that passes on one machine may fail on
another. A test therefore asks for the majority of an odd number of seeds, 9 where nothing else is said. If a single
seed errs with probability p, 9 err with P(X >= 5) for X ~ Binomial(9, p), at most 126 p^5: below 1 in 10,000 where p
is below 6.2%.

p is not known, only measured. `error_bound` takes for it the upper end of the one-sided 95% interval of Clopper and
Pearson (Biometrika 26, 1934): with no error in n seeds that is 1 - 0.05^(1/n), so that 47 seeds without an error, or
74 with one, are the fewest that show a chance below 1 in 10,000. Fewer cannot show it, however clear their returns.
"""

from collections.abc import Iterable

from scipy import stats

OF = 9
ALLOWED = 1e-4
"""The most that a rule may err, in either direction."""


def majority(outcomes: Iterable[bool], of: int = OF) -> bool:
    """Return whether most of `of` outcomes, an odd number, are true; takes no more of them than decide it.

    Raises:
        ValueError: `outcomes` ends before it is decided.
    """
    found = {True: 0, False: 0}
    for outcome in outcomes:
        found[bool(outcome)] += 1
        if found[bool(outcome)] > of // 2:
            return bool(outcome)
    raise ValueError(f"outcomes: found {sum(found.values())}; allowed: enough for a majority of {of}")


def error_bound(errors: int, seeds: int, of: int = OF) -> float:
    """Return the most that a majority of `of` seeds errs, with 95% confidence, after `errors` in `seeds` seeds."""
    most = 1.0 if errors == seeds else float(stats.beta.ppf(0.95, errors + 1, seeds - errors))
    return float(stats.binom.sf(of // 2, of, most))
