"""The cells of the learner's bench: a network and a batch size, what is asked of the native learner, and its work."""

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
PERIOD = 1000  # gradient steps after which every schedule of variants has come round


@dataclass(frozen=True)
class Cell:
    """What is timed.

    Attributes:
        name: for the table.
        workload: name of the workload whose algorithm and sizes are used.
        batch_size: transitions in a gradient step.
        target: how many times as fast as the best of PyTorch the native learner shall be on one thread; None where
            nothing is asked.
        peers: other systems that are timed beside it.
        settings: fields of the workload that are changed.
        whole_update: time PPO's update, K epochs of minibatches, instead of one gradient step.
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
        """The workload, with the settings."""
        return _item(self)

    @property
    def unit(self) -> str:
        """What a call does."""
        return "update" if self.whole_update else "step"

    @property
    def samples(self) -> int:
        """Transitions that a call is given: the batch, or N T of an update."""
        if not self.whole_update:
            return self.batch_size
        settings = self.item
        return settings.training.actors * int(settings.algorithm.hyperparameters["trajectory_length"])

    @property
    def steps(self) -> int:
        """Gradient steps of a call."""
        if not self.whole_update:
            return 1
        return int(self.item.algorithm.hyperparameters["epochs"]) * (self.samples // self.batch_size)

    @property
    def flops(self) -> float:
        """Floating-point operations of a call's matrix products, in the mean over the kinds of steps."""
        return self.steps * step_flops(self.item, self.batch_size)


@cache
def _item(cell: Cell) -> Workload:
    item = workloads.load(cell.workload)
    for field, value in cell.settings:
        item = workloads.override(item, field, value, "bench-learner")
    return item


def step_flops(item: Workload, batch_size: int) -> float:
    """Floating-point operations of the matrix products of one gradient step: 2 a multiply-accumulate.

    Counted in the step graph, in the mean over the variants that take turns; convolutions are products there.
    """
    algorithm = algorithm_of(item)
    turns = Counter(algorithm.variant(step) for step in range(PERIOD))
    total = 0
    for variant, count in turns.items():
        products = step_graph(algorithm, batch_size, variant).nodes_of("matmul")
        total += count * sum(2 * prod(node.outputs[0].shape) * node.inputs[0].shape[-1] for node in products)
    return total / PERIOD


def _actor_critic(algorithm: str) -> tuple[Cell, ...]:
    return tuple(
        Cell(
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
        Cell(f"CartPole-DDPG 8-8, B={size}", "cartpole-ddpg", size, target)
        for size, target in ((32, 60.0), (256, 25.0), (2048, None))
    ),
    *(
        Cell(f"Hopper-DDPG 256-256, B={size}", "hopper-ddpg", size, target)
        for size, target in ((32, 3.0), (256, 2.0), (2048, 1.5), (16384, None))
    ),
    Cell("FIX HalfCheetah-DDPG 400-300, B=256", "halfcheetah-ddpg", 256),
    *_actor_critic("td3"),
    *_actor_critic("sac"),
    Cell("PPO Hopper 64-64, M=512", "hopper-ppo", 512, peers=()),
    Cell("PPO Humanoid 128-64, M=512", "humanoid-ppo", 512, peers=()),
    Cell(
        "PPO update Hopper 64-64, N=4, T=512, M=512, K=10",
        "hopper-ppo",
        512,
        peers=(SB3, RLTOOLS),
        # No early stop: the others would take other numbers of steps.
        settings=(("algorithm.target_kl", None), ("training.actors", 4)),
        whole_update=True,
    ),
    Cell("Pong-DQN Nature CNN, B=32", "pong-dqn", 32, 1.0),
)
