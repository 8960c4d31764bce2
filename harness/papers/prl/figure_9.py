"""Checks whether training converges faster than with other libraries, at the same reward (PRL 6.4, Fig. 9).

The figure has the reward over time, for which a comparison has two parts: the ratio of the throughputs, and the returns
at equal steps. If this project does not clearly learn less in the same steps, the ratio is that of the times to the
same return. What the comparisons leave out, the reward that re-allocating actors to training costs (PRL 3.3.1), is
measured here.
"""

from functools import partial

import pandas as pd

from placerl.harness.compare.equal_steps import LEARNS_LESS
from placerl.harness.papers import relaxed_training
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.cells import NIGHT_TIER
from placerl.harness.papers.charts import Panels
from placerl.harness.papers.comparisons import gains
from placerl.harness.papers.evidence import records
from placerl.harness.papers.experiments import Experiment
from placerl.harness.papers.legs import SO_FAR
from placerl.harness.papers.prl.table_3 import (
    BESIDE_LIBRARIES,
    LIBRARIES,
    lacking,
    missing_comparisons,
    on_benchmarks,
    what_decides,
)
from placerl.harness.papers.relaxed_training import (
    NO_LOSS,
    Curve,
    Relaxation,
    RelaxedTask,
    Returns,
    above_limits,
    runs_of,
    shares,
)
from placerl.harness.papers.shares import Limits

REALLOCATED = Relaxation(
    Experiment("PRL-F9", "training with actors that are re-allocated", f"final_return {SO_FAR}", Returns),
    "torch-native-cpu",
    (
        Curve("two actors", {"overlap": 16, "processes": 2}),
        Curve("re-allocated", {"overlap": 16, "processes": 2, "reallocate": True}),
    ),
    actors=2,
    one_thread=False,
)
LIMITS: Limits = (("re-allocated", NO_LOSS),)
TASKS = {
    "standard": (
        RelaxedTask(REALLOCATED, "cartpole-ddpg", 6_000, 3e-3),
        RelaxedTask(REALLOCATED, "hopper-ddpg", 3_200, 1e-2),
    ),
    NIGHT_TIER: (
        RelaxedTask(REALLOCATED, "cartpole-dqn", 100_000, 3e-3, LIMITS),
        RelaxedTask(REALLOCATED, "mountaincar-ddpg", 100_000, 3e-3, LIMITS),
    ),
    "full": (
        RelaxedTask(REALLOCATED, "cartpole-ddpg", 20_000, 3e-3),
        RelaxedTask(REALLOCATED, "hopper-ddpg", 1_000_000, 1e-2),
        RelaxedTask(REALLOCATED, "pong-dqn", 1_000_000, 3e-2),
    ),
}
"""Workloads and lengths of the training runs, by tier.

The quick tier has none: starting the actors' processes takes longer than the runs.
"""


class ConvergesFasterAtEqualReward(Claim):
    """Checks PRL Fig. 9: throughput improves without a loss of reward, so that training converges faster.

    Every training of PRL's benchmarks has to be faster than each library's, on the same environments, while it does not
    clearly learn less in the same steps, and re-allocating actors to training has to keep the reward. One that is
    slower, learns less or loses reward refutes the statement; only comparisons with both libraries on all three
    benchmarks show it. Other workloads are listed.
    """

    key, place, position = "PRL-F9", "6.4, Fig. 9", 6
    statement = "Faster convergence at the same reward"
    needs = (
        "Stable-Baselines3 or RLlib compared with this project on PRL's benchmarks, with returns at equal steps "
        "(`placerl compare`)"
    )
    reads = (*BESIDE_LIBRARIES,)
    commands = ("placerl reproduce --only PRL-F9 --tier standard", "placerl report")
    measured_by = (partial(relaxed_training.cells, TASKS),)

    def judge(self, frame: pd.DataFrame) -> Finding:
        reference = REALLOCATED.curves[0].name
        judged = [
            (share, above_limits(runs, reference, LIMITS)[curve])
            for name, runs in runs_of(frame, REALLOCATED).items()
            for curve, share in shares(name, runs, reference).items()
            if share
        ]
        reward_shares = [share for share, _ in judged]
        library_gains = gains(frame, *LIBRARIES)
        ours = (*(gain.ratio for gain in library_gains), *reward_shares)
        compared_on = on_benchmarks(frame, library_gains)
        if not compared_on:
            return Finding(Outcome.NOT_RUN, ours, needs=self.needs)
        of_prl = [gain for some in compared_on.values() for gain in some]
        faster, slower = (sum(gain.verdict == word for gain in of_prl) for word in ("faster", "slower"))
        compared = [row for gain in of_prl for row in records(frame.loc[list(gain.ratio.rows)])]
        less = sum(row.status == "ok" and row.verdict == LEARNS_LESS for row in compared)
        missing = missing_comparisons(compared_on)
        said = (
            f"Of {len(of_prl)} comparisons on PRL's benchmarks {faster} are faster and do not clearly learn less in "
            f"the same steps, {slower} are slower, and {less} are faster and learn less. "
        )
        loses = [keeps for _, keeps in judged]
        said += (
            f"Re-allocating actors keeps the reward in {loses.count(True)} of {len(loses)} workloads and costs some in "
            f"{loses.count(False)}."
            if loses
            else "What re-allocating actors costs in reward was not trained (claim/PRL-F9, tier standard)."
        )
        said += lacking(missing)
        if slower or less or False in loses:
            return Finding(Outcome.NOT_REPRODUCED, ours, said)
        if faster == len(of_prl) and not missing and loses and all(loses):
            return Finding(Outcome.IN_KIND, ours, said)
        return Finding(Outcome.NO_VERDICT, ours, said, decides=what_decides(missing))

    def panels(self, frame: pd.DataFrame) -> Panels:
        return relaxed_training.panels(frame, REALLOCATED)
