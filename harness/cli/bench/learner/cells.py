"""Lists the cells of the learner benchmark: the networks and batch sizes at which gradient steps are timed."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import prod

from placerl.harness import workloads
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.learner.graph_learner import step_graph

RLTOOLS = "rltools"
SB3 = "sb3"
PERIOD = 1000  # gradient steps after which every schedule of variants repeats


@dataclass(frozen=True)
class LearnerCell:
    """A configuration in which gradient steps are timed: a workload's algorithm and network, and a batch size.

    Attributes:
        workload: name of the workload whose algorithm and sizes are used.
        target: required speedup of the native learner on one thread over the best form of PyTorch; None if
            nothing is required.
        peers: other systems timed in the same rounds.
        settings: fields of the workload that are changed, with their new values.
        whole_update: whether a timed call is a whole update of PPO (K epochs of minibatches) instead of one gradient
            step.
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
        """Return the workload of this configuration: the one named `workload`, with the changes of `settings`."""
        return _item(self)

    @property
    def unit(self) -> str:
        """Return the name of what a timed call does: "update" or "step"."""
        return "update" if self.whole_update else "step"

    @property
    def samples(self) -> int:
        """Return the number of transitions in a timed call: those of a batch, or the N x T of an update of PPO."""
        if not self.whole_update:
            return self.batch_size
        settings = self.item
        return settings.training.actors * int(settings.algorithm.hyperparameters["trajectory_length"])

    @property
    def steps(self) -> int:
        """Return the number of gradient steps in a timed call."""
        if not self.whole_update:
            return 1
        return int(self.item.algorithm.hyperparameters["epochs"]) * (self.samples // self.batch_size)

    @property
    def flops(self) -> float:
        """Return the floating-point operations of the matrix products in a timed call.

        They are averaged over the kinds of gradient steps, such as TD3's with and without an update of the policy.
        """
        return self.steps * step_flops(self.item, self.batch_size)


@cache
def _item(cell: LearnerCell) -> Workload:
    item = workloads.load(cell.workload)
    for field, value in cell.settings:
        item = workloads.override(item, field, value, "bench-learner")
    return item


def step_flops(item: Workload, batch_size: int) -> float:
    """Return the floating-point operations of the matrix products in one gradient step: 2 per multiply-accumulate.

    They are counted in the graph of the step, in which convolutions are matrix products, and averaged over the kinds
    of steps that the algorithm has.
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
