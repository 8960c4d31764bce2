"""Judges the gains in throughput over RLlib, from stored comparisons (MAP VII-E, Fig. 14)."""

import pandas as pd

from placerl.harness.compare.parts import ComparedPart, label
from placerl.harness.compare.registry import RLLIB
from placerl.harness.papers import charts
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.charts import Panel, Panels
from placerl.harness.papers.comparisons import Gain, beside, beside_under_mappings, gains, gains_on_gpu
from placerl.harness.papers.evidence import agrees
from placerl.harness.papers.number import from_text

CARTPOLE, OTHERS = "cartpole-ddpg", ("hopper-ddpg", "pong-dqn")
"""The workloads of MAP's benchmarks, with the algorithm that Table III gives to each."""
ALONE = tuple(
    f"compare/{name}/{label(line, ComparedPart.LEARNER_AND_REPLAY)}"
    for name in (CARTPOLE, *OTHERS)
    for line in RLLIB
)
NEEDS_ALONE = (
    "gains over RLlib of learner and replay alone (`placerl compare WORKLOAD --alone`) of every workload. RLlib 2.6.3, "
    "the last with DDPG, has no Hopper-v5, and no network with convolutions is set up for RLlib here"
)


def _place(frame: pd.DataFrame, gain: Gain) -> str:
    row = frame.loc[gain.ratio.rows[0]]
    return f"{row['workload']},\n{row['batch_size']}"


class GainOverRllib(Claim):
    """Checks MAP Fig. 14: this project is faster than RLlib if both use a GPU.

    The simulated FPGA is left out.
    """

    key, place, position = "MAP-F14", "VII-E, Fig. 14", 23
    statement = "Gain over RLlib"
    published = from_text("MAP.rllib_speedup_low", "MAP.rllib_speedup_high")
    needs = (
        "a CUDA device, and RLlib compared with this project on it: `placerl compare WORKLOAD --baselines rllib "
        "--mapping torch:cuda-native-cpu`, rllib_2_6_3 for DDPG (`placerl gpu-claims`)"
    )
    reads = (*beside(*RLLIB), *beside_under_mappings(*RLLIB))

    def judge(self, frame: pd.DataFrame) -> Finding:
        on_gpu = gains_on_gpu(frame, *RLLIB)
        if not on_gpu:
            ours = tuple(gain.ratio for gain in gains(frame, *RLLIB))
            return Finding(Outcome.NOT_RUN, ours, needs=self.needs)
        ours, words = tuple(gain.ratio for gain in on_gpu), [gain.verdict for gain in on_gpu]
        said = (
            f"On a CUDA device faster in {words.count('faster')} of {len(on_gpu)} comparisons, slower in "
            f"{words.count('slower')}; MAP's gains are those of its mappings to GPU and FPGA."
        )
        if "slower" in words:
            return Finding(Outcome.NOT_REPRODUCED, ours, said)
        return Finding(Outcome.IN_KIND if set(words) == {"faster"} else Outcome.NO_VERDICT, ours, said)

    def panels(self, frame: pd.DataFrame) -> Panels:
        low, high = (n.value for n in self.published)
        by_library = {name: gains(frame, name) for name in RLLIB}
        return [
            Panel(
                "workload, batch size",
                "throughput over RLlib's",
                [
                    charts.line(f"over {name}", [(_place(frame, gain), gain.ratio) for gain in some])
                    for name, some in by_library.items()
                ],
                log_y=True,
                published_y=[("MAP's range, with a GPU or an FPGA (published)", low, high)],
            )
        ]


class CartPoleGainsMost(Claim):
    """Checks MAP VII-E: CartPole, which MAP trains with DDPG, has the largest gain over RLlib.

    The gains are those of gradient steps with prioritised replay, without environment steps, on this machine's CPU.
    """

    key, place, position = "MAP-F14-CartPole", "VII-E, Fig. 14", 24
    statement = "The largest gain over RLlib is CartPole's"
    published = from_text("MAP.rllib_speedup_high")
    needs = NEEDS_ALONE
    reads = ALONE
    commands = (
        "placerl compare cartpole-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
        "placerl compare hopper-ddpg --alone --baselines rllib_2_6_3 --batch-size 32",
        "placerl compare pong-dqn --alone --baselines rllib --batch-size 32",
        "placerl report",
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        by_workload: dict[str, list[Gain]] = {}
        for gain in gains(frame, *(label(line, ComparedPart.LEARNER_AND_REPLAY) for line in RLLIB)):
            by_workload.setdefault(str(frame.at[gain.ratio.rows[0], "workload"]), []).append(gain)
        mine = by_workload.get(CARTPOLE, [])
        others = [gain for name in OTHERS for gain in by_workload.get(name, [])]
        ours = tuple(gain.ratio for gain in (*mine, *others))
        lacking = [name for name in OTHERS if name not in by_workload]
        if not mine or lacking:
            missing = [] if mine else ["CartPole's with DDPG"]
            missing += [f"that of {name}" for name in lacking]
            return Finding(Outcome.NOT_RUN, ours, needs=f"{NEEDS_ALONE}; missing: {', '.join(missing)}")
        published = self.published[0].value
        best = max((gain.ratio for gain in mine), key=lambda ratio: ratio.value)
        rival = max((gain.ratio for gain in others), key=lambda ratio: ratio.value)
        said = (
            f"The largest gain of CartPole's is {best}, of the others' {rival}. Gradient steps with prioritised "
            "replay, without environment steps on either side; both on one core, where MAP's best mapping has an FPGA."
        )
        if any(gain.verdict != "faster" for gain in mine):
            said += " Not faster, beyond the noise, in every comparison of CartPole's."
        if best.high is None or best.low is None or rival.high is None or rival.low is None:
            return Finding(Outcome.NO_VERDICT, ours, said)
        if best.high < rival.low or any(gain.verdict == "slower" for gain in mine):
            return Finding(Outcome.NOT_REPRODUCED, ours, said)
        if best.low <= rival.high or any(gain.verdict != "faster" for gain in mine):
            return Finding(Outcome.NO_VERDICT, ours, said)
        return Finding(Outcome.REPRODUCED if agrees(best, published) else Outcome.IN_KIND, ours, said)
