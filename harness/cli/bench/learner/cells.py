"""The cells of the learner benchmark: network, batch size, the native learner's target, and the work."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import prod

from harness import workloads
from harness.workloads import Workload
from harness.workloads.task import algorithm_of
from primitives.learner.graph_learner import step_graph

RLTOOLS = "rltools"
SB3 = "sb3"
PERIOD = 1000  # gradient steps after which every schedule of variants repeats


@dataclass(frozen=True)
class LearnerCell:
    """One configuration to time.

    Attributes:
        name: name in the table.
        workload: name of the workload whose algorithm and sizes are used.
        batch_size: transitions per gradient step.
        target: required speedup of the native learner on one thread over the best form of PyTorch; None if
            nothing is required.
        peers: other systems timed in the same rounds.
        settings: changed fields of the workload.
        whole_update: whether PPO's update of K epochs of minibatches is timed, instead of one gradient step.
    """

    name: str
    workload: str
    batch_size: int
    target: float | None = None
    peers: tuple[str, ...] = (SB3,)
    settings: tuple[tuple[str, object], ...] = ()
    whole_update: bool = False

    @property
    def item(self) -> Workload:
        """Return the workload with the settings applied."""
        return _item(self)

    @property
    def unit(self) -> str:
        """Return the name of what a call does."""
        return "update" if self.whole_update else "step"

    @property
    def samples(self) -> int:
        """Return the transitions per call: the batch, or N T of an update."""
        if not self.whole_update:
            return self.batch_size
        settings = self.item
        return settings.training.actors * int(settings.algorithm.hyperparameters["trajectory_length"])

    @property
    def steps(self) -> int:
        """Return the gradient steps per call."""
        if not self.whole_update:
            return 1
        return int(self.item.algorithm.hyperparameters["epochs"]) * (self.samples // self.batch_size)

    @property
    def flops(self) -> float:
        """Return the floating-point operations of a call's matrix products, averaged over the kinds of steps."""
        return self.steps * step_flops(self.item, self.batch_size)


@cache
def _item(cell: LearnerCell) -> Workload:
    item = workloads.load(cell.workload)
    for field, value in cell.settings:
        item = workloads.override(item, field, value, "bench-learner")
    return item


def step_flops(item: Workload, batch_size: int) -> float:
    """Return the floating-point operations of one gradient step's matrix products: 2 per multiply-accumulate.

    They are counted in the step graph and averaged over the variants; convolutions are products there.
    """
    algorithm = algorithm_of(item)
    turns = Counter(algorithm.variant(step) for step in range(PERIOD))
    total = 0
    for variant, count in turns.items():
        products = step_graph(algorithm, batch_size, variant).nodes_of("matmul")
        total += count * sum(2 * prod(node.outputs[0].shape) * node.inputs[0].shape[-1] for node in products)
    return total / PERIOD


def _actor_critic(algorithm: str) -> tuple[LearnerCell, ...]:
    return tuple(
        LearnerCell(
            f"{algorithm.upper()} Pendulum {width}-{width}, B={size}",
            f"pendulum-{algorithm}",
            size,
            peers=(SB3, RLTOOLS),
            settings=(("network.hidden", (width, width)),),
        )
        for width in (64, 256)
        for size in (32, 256)
    )


CELLS = (
    *(
        LearnerCell(f"CartPole-DDPG 8-8, B={size}", "cartpole-ddpg", size, target)
        for size, target in ((32, 60.0), (256, 25.0), (2048, None))
    ),
    *(
        LearnerCell(f"Hopper-DDPG 256-256, B={size}", "hopper-ddpg", size, target)
        for size, target in ((32, 3.0), (256, 2.0), (2048, 1.5), (16384, None))
    ),
    LearnerCell("FIX HalfCheetah-DDPG 400-300, B=256", "halfcheetah-ddpg", 256),
    *_actor_critic("td3"),
    *_actor_critic("sac"),
    LearnerCell("PPO Hopper 64-64, M=512", "hopper-ppo", 512, peers=()),
    LearnerCell("PPO Humanoid 128-64, M=512", "humanoid-ppo", 512, peers=()),
    LearnerCell(
        "PPO update Hopper 64-64, N=4, T=512, M=512, K=10",
        "hopper-ppo",
        512,
        peers=(SB3, RLTOOLS),
        # Without early stop, which would give the systems different numbers of steps.
        settings=(("algorithm.target_kl", None), ("training.actors", 4)),
        whole_update=True,
    ),
    LearnerCell("Pong-DQN Nature CNN, B=32", "pong-dqn", 32, 1.0),
)
