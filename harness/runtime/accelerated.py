"""On-policy training in virtual time with an accelerator that runs the networks, and a host that does the rest (PPO 3).

As in PPO's system (its Fig. 1), all networks are on the accelerator, for inferences and for training:

1. In each of T steps the host sends N observations, and gets the outputs of the networks; it draws the actions and
   steps the environments. Once more it sends the last observations, for their values.
2. The host computes advantages, and the probabilities of the actions.
3. For each mini-batch the host deals M samples, sends their observations, gets the outputs, computes the objective and
   its gradients with respect to them, and sends these; the accelerator computes all gradients and takes Adam's step.

Nothing of this overlaps, because each piece needs the result of the one before it. The host's pieces take their own
real time. The accelerator's take its cycles, and transfers their links' time; the numbers come from a learner on the
host, whose time does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import HOST, LEARNER
from placerl.harness.loop.virtual_time import Device, VirtualTime
from placerl.harness.mapping.base import Platform
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.workloads import Workload
from placerl.primitives.algorithms.ppo import Rollout, advantages
from placerl.primitives.algorithms.ppo_objective import PpoObjective
from placerl.primitives.fpga.cycles.ppo_steps import Propagation
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.learner.native import native_backend

Output = TypeVar("Output")
HOST_TERMS = ("environment", "draw", "prepare", "deal", "objective")
DEVICE_TERMS = ("infer", "learner")
LINK_TERMS = ("infer_links", "learner_links")
"""The parts of an iteration: the host's, the accelerator's, and the transfers for inferences and for training."""
_WORD_BYTES = 4


@dataclass(frozen=True)
class NetworkAccelerator:
    """An accelerator of on-policy training.

    Attributes:
        key: name of the device in the platform, such as "fpga".
        cycles: the cycles of its runs.
        clock_hz: its clock frequency, Hz.
        provenance: provenance of the cycles.
    """

    key: str
    cycles: Propagation
    clock_hz: float
    provenance: Provenance


@dataclass
class HostTransfers:
    """The transfers between host and accelerator so far.

    Attributes:
        count: number of transfers, each of which takes a link's latency.
        sent_bytes: their bytes.
        seconds: their seconds.
    """

    count: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0


class _Pieces(NamedTuple):
    """The pieces of a forward pass.

    Attributes:
        there_bytes, back_bytes: bytes of the observations, and of the outputs or of their gradients.
        there_s, forward_s, back_s: seconds of sending observations, of the pass, and of sending outputs back.
        gradients_s: seconds of sending the outputs' gradients.
    """

    there_bytes: int
    back_bytes: int
    there_s: float
    forward_s: float
    back_s: float
    gradients_s: float


class AcceleratedTraining(OnPolicyTraining):
    """On-policy training whose networks run on an accelerator; its seconds are virtual time.

    `terms_s` of its progress has `HOST_TERMS`, `DEVICE_TERMS` and `LINK_TERMS`.

    Args:
        resolved: what is trained, and how; its mapping is that of the learner that computes the numbers.
        accelerator: the accelerator.
        platform: returns the platform that states the link between "cpu" and the accelerator.
        seed: as for `OnPolicyTraining`.

    Attributes:
        transfers: the transfers so far.

    Raises:
        UserError: the platform lacks the link, or as for `OnPolicyTraining`.
    """

    def __init__(
        self,
        resolved: Resolved,
        accelerator: NetworkAccelerator,
        platform: Callable[[], Platform],
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(resolved, seed=seed)
        try:
            self._connect(resolved.workload, accelerator, platform())
        except BaseException:
            self.close()
            raise

    def _connect(self, workload: Workload, accelerator: NetworkAccelerator, links: Platform) -> None:
        """Prepare what the host and the accelerator do, and the time that it takes."""
        ends = {(HOST, LEARNER): ("cpu", accelerator.key), (LEARNER, HOST): (accelerator.key, "cpu")}
        self._accelerator = accelerator
        self._virtual = VirtualTime(
            {LEARNER: Device(lambda: 0.0, accelerator.key)},
            {pair: links.bytes_per_s(*between) for pair, between in ends.items()},
            accelerator.provenance,
            {pair: links.latency_s(*between) for pair, between in ends.items()},
        )
        self._time = self._virtual
        self.provenance = accelerator.provenance
        self.transfers = HostTransfers()
        size = self.learner.batch_size
        self._objective = PpoObjective.of(self._algorithm, size)
        self._objectives = GraphLearner(
            self._objective,
            native_backend.compile_graphs,
            backend="native",
            device="cpu",
            batch_size=size,
            seed=0,
        )
        self._host_rng = np.random.default_rng(0)
        shape, dtype = self._algorithm.columns(1)["observation"]
        one, outputs = (
            int(np.prod(shape)) * dtype.itemsize,
            _WORD_BYTES * (workload.environment.action_size + 1),
        )
        self._inference = self._pieces(self._actors, one, outputs)
        self._update = self._pieces(size, one, outputs)
        self._training_s = accelerator.cycles.training_cycles(size) / accelerator.clock_hz

    def _pieces(self, batch: int, observation_bytes: int, output_bytes: int) -> "_Pieces":
        """Return the pieces of a forward pass of a batch."""
        there, back = batch * observation_bytes, batch * output_bytes
        cycles, link_s = self._accelerator.cycles.forward_cycles(batch), self._virtual.link_s
        return _Pieces(
            there,
            back,
            link_s(HOST, LEARNER, there),
            cycles / self._accelerator.clock_hz,
            link_s(LEARNER, HOST, back),
            link_s(HOST, LEARNER, back),
        )

    def samples(self) -> dict[str, npt.NDArray]:
        """Collect the transitions of one iteration, and return the samples to learn from, by column."""
        self._unseen(self._acting.publish)  # the weights stay on the accelerator
        transitions = self._collected()
        self._infer()
        shape = (self._length, self._actors)
        by_step = {name: column.reshape(*shape, *column.shape[1:]) for name, column in transitions.items()}
        rollout, parameters = Rollout(**by_step), self.learner.parameters()
        samples = self._unseen(lambda: self._algorithm.prepare(parameters, rollout))
        self._time.call(HOST, "prepare", lambda: self._prepared(rollout, samples, parameters))
        return samples

    def _collected(self) -> dict[str, npt.NDArray]:
        """Step the environments, and count the host's seconds without those in which it computed actions."""
        before_s, spent_s, start_s = (
            self._acting.inference_s,
            self._time.terms_s["environment"],
            perf_counter(),
        )
        transitions = self._time.call(HOST, "environment", lambda: self._acting.collect(self._length)).value
        wall_s = perf_counter() - start_s
        # Both were measured on the wall clock; the host's seconds are fewer if it waited for a core.
        inferring = min(1.0, (self._acting.inference_s - before_s) / wall_s)
        left_out_s = inferring * (self._time.terms_s["environment"] - spent_s)
        self._virtual.turn_back(left_out_s)
        self._time.terms_s["environment"] -= left_out_s
        return transitions

    def _infer(self) -> None:
        """Take the accelerator's and the links' time of the inferences, and the host's for drawing T times actions.

        Besides T inferences there is one for the values of the last observations.
        """
        pieces, inferences = self._inference, self._length + 1
        self._send("infer_links", pieces.there_s, pieces.there_bytes, inferences)
        self._take("infer", inferences * pieces.forward_s)
        self._send("infer_links", pieces.back_s, pieces.back_bytes, inferences)
        log_std = {"policy.log_std": np.zeros(self._algorithm.action_size, np.float32)}
        outputs = np.zeros((self._actors, self._algorithm.action_size), np.float32)

        def draw() -> None:
            for step in range(self._length):
                draws = self._objective.draw_exploration(self._actors, step, self._host_rng)
                self._objective.drawn(log_std, outputs, draws)

        self._time.call(HOST, "draw", draw)

    def _prepared(
        self, rollout: Rollout, samples: dict[str, npt.NDArray], parameters: dict[str, npt.NDArray]
    ) -> None:
        """Do what the host does with the outputs of the inferences before an iteration's training (PPO 3)."""
        settings = self._algorithm.hyperparameters
        value = (samples["value_target"] - samples["advantage"]).reshape(rollout.reward.shape)
        advantages(
            rollout.reward.astype(value.dtype, copy=False),
            value,
            np.concatenate([value[1:], value[-1:]]),
            rollout.terminated,
            rollout.truncated,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
        )
        outputs = np.zeros((len(samples["advantage"]), self._algorithm.action_size), np.float32)
        self._objective.log_probability(parameters, outputs, samples["action"])

    def _learn(self, samples: dict[str, npt.NDArray]) -> None:
        self._variant, size, pieces = "full", self.learner.batch_size, self._update
        minibatches = self._algorithm.minibatches(samples, size, self._rng)
        for _ in range(self._gradient_steps_each):
            batch = self._time.call(HOST, "deal", lambda: next(minibatches)).value
            self._send("learner_links", pieces.there_s, pieces.there_bytes)
            self._take("learner", pieces.forward_s)
            self._send("learner_links", pieces.back_s, pieces.back_bytes)
            asked = self._unseen(lambda batch=batch: self._outputs(batch))  # type: ignore[misc]
            self._time.call(HOST, "objective", lambda asked=asked: self._objectives.step(asked))  # type: ignore[misc]
            self._send("learner_links", pieces.gradients_s, pieces.back_bytes)
            self._take("learner", self._training_s)
            self._unseen(lambda batch=batch: self._step(batch))  # type: ignore[misc]
            self.gradient_steps += 1

    def _outputs(self, batch: dict[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        """Return what the objective reads of a mini-batch: its samples, and outputs near which they were drawn."""
        size = self.learner.batch_size
        discrete = self._algorithm.discrete
        policy = np.zeros((size, self._algorithm.action_size), np.float32) if discrete else batch["action"]
        samples = {name: column for name, column in batch.items() if name != "observation"}
        value = batch["value_target"].reshape(-1, 1)
        return {**samples, "policy_output": policy, "value_output": value}

    def _take(self, term: str, seconds: float) -> None:
        """Let the host wait for a device or a link, which it has just asked."""
        self._virtual.terms_s[term] += seconds
        self._virtual.turn_back(-seconds)

    def _send(self, term: str, seconds: float, sent_bytes: int, times: int = 1) -> None:
        """Let the host wait for transfers between it and the accelerator."""
        self._take(term, times * seconds)
        self.transfers.count += times
        self.transfers.sent_bytes += times * sent_bytes
        self.transfers.seconds += times * seconds

    def _unseen(self, work: Callable[[], Output]) -> Output:
        """Do work that no part of the system does, only its simulation; its seconds do not count."""
        start_s = perf_counter()
        output = work()
        self._virtual.turn_back(perf_counter() - start_s)
        return output

    def _terms_s(self) -> dict[str, float]:
        spent: Any = self._virtual.terms_s
        return {name: spent[name] for name in (*HOST_TERMS, *DEVICE_TERMS, *LINK_TERMS)}
