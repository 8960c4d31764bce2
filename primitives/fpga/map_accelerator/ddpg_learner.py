"""The learner of MAP's accelerator for DDPG: a pass that trains the critic, then one that trains the actor."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, TANH_CYCLES
from placerl.primitives.fpga.learner_pipeline.policy_units import AscentLoss, PolicyBackward, PolicyForward
from placerl.primitives.fpga.learner_pipeline.stages import Stages
from placerl.primitives.fpga.learner_pipeline.td_loss import TdLossUnit, terms
from placerl.primitives.fpga.learner_pipeline.tensor_units import BackwardUnit, ForwardUnit, GradientUnit
from placerl.primitives.fpga.map_accelerator.learner_ports import TD_DEPTH, deal, learner_ports, sample
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
from placerl.primitives.fpga.map_accelerator.updates import NetworkUpdates, Scalars


class DdpgLearner(wiring.Component):
    """Trains critic and actor on one batch, which it takes twice: the actor's pass needs the new critic.

    Each pass has units of its own; those of the critic's layers in both passes hold the same weights.

    Args:
        settings: sizes, with an actor.

    Ports:
        Those of `DqnLearner`; layers are numbered as in `settings.networks`. A batch begins for the network that
        `acts` names, and `finished` is about that network. `scalars` and `tds` are the critic's.
        acts: In(1), the batch is for the actor; constant during a batch. actor_scalars: In(Scalars).
    """

    def __init__(self, settings: AcceleratorSettings):
        self.settings = settings
        super().__init__({**learner_ports(settings), "acts": In(1), "actor_scalars": In(Scalars)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        settings = self.settings
        actor, critic = settings.actor, settings.layers
        inputs, queues = [], []
        critics: list[Stages] = []
        actors: list[Stages] = []
        for p in range(settings.pipelines):
            taken = stream.Signature(sample(settings)).create()
            to_critic, queue, critic_stages = self._critic_pass(m, p, taken.payload)
            to_actor, actor_stages = self._actor_pass(m, p, taken.payload)
            m.d.comb += [
                to_critic.valid.eq(taken.valid & ~self.acts),
                to_actor.valid.eq(taken.valid & self.acts),
                taken.ready.eq(Mux(self.acts, to_actor.ready, to_critic.ready)),
            ]
            inputs.append(taken)
            queues.append(queue)
            critics.append(critic_stages)
            actors.append(actor_stages)
        deal(m, self, inputs, queues)

        shared: dict[str, Any] = {"m": m, "learner": self, "samples": self.samples_per_pipeline}
        of_actor = NetworkUpdates(
            layers=actor,
            first=0,
            begin=self.begin & self.acts,
            scalars=self.actor_scalars,
            gradients=[stages.gradient for stages in actors],
            **shared,
        )
        of_critic = NetworkUpdates(
            layers=critic,
            first=len(actor),
            begin=self.begin & ~self.acts,
            scalars=self.scalars,
            gradients=[stages.gradient for stages in critics],
            **shared,
        )
        count = len(actor)
        for stages in critics:
            of_critic.write(stages.forward)
            of_critic.write(stages.backward, first=1)
            of_actor.write(stages.target[:count], target=True)
            of_critic.write(stages.target[count:], target=True)
        for stages in actors:
            of_actor.write(stages.forward[:count])
            of_critic.write(stages.forward[count:])
            of_actor.write(stages.backward[: count - 1], first=1)
            of_critic.write(stages.backward[count - 1 :])
        m.d.comb += self.finished.eq(Mux(self.acts, of_actor.finished, of_critic.finished))
        return m

    @property
    def _held(self) -> int:
        """The samples in a policy's tanh, into which they come no faster than the slowest layer takes them."""
        return -(-TANH_CYCLES // max(layer.words for layer in self.settings.networks))

    def _policy(self) -> list[Any]:
        """Return the forward units of an actor; the last one joins its action to the state."""
        *hidden, last = self.settings.actor
        return [*(ForwardUnit(layer) for layer in hidden), PolicyForward(last, self.settings.states)]

    def _values(self) -> list[Any]:
        """Return the forward units of a critic."""
        layers = self.settings.layers
        return [ForwardUnit(layer, relu=number < len(layers) - 1) for number, layer in enumerate(layers)]

    def _states(self, m: Module, name: str, unit: PolicyForward, depth: int) -> SyncFIFOBuffered:
        """Add the queue of the states for a policy's last unit."""
        queue = SyncFIFOBuffered(width=FORMAT.bits * self.settings.states, depth=depth)
        m.submodules[name] = queue
        m.d.comb += [
            unit.states.payload.as_value().eq(queue.r_data),
            unit.states.valid.eq(queue.r_rdy),
            queue.r_en.eq(unit.states.ready),
        ]
        return queue

    def _critic_pass(self, m: Module, p: int, given: Any) -> tuple[Any, Any, Stages]:
        """Add the critic's pass of a pipeline, and return its samples (without payload), TD errors and units."""
        settings = self.settings
        layers = settings.layers
        loss = TdLossUnit(1)
        stages = Stages(
            forward=self._values(),
            loss=loss,
            backward=[BackwardUnit(layer) for layer in layers[1:]],
            gradient=[GradientUnit(layer) for layer in layers],
            target=[*self._policy(), *self._values()],
            held=self._held,
        )
        depth = stages.depth
        m.submodules[f"terms_{p}"] = waiting = SyncFIFOBuffered(width=terms(1).size, depth=depth)
        m.submodules[f"tds_{p}"] = tds = SyncFIFOBuffered(width=WORD_BITS, depth=TD_DEPTH)
        policy: Any = stages.target[len(settings.actor) - 1]
        states = self._states(m, f"next_states_{p}", policy, depth)
        offered = stream.Signature(1).create()
        x = stream.Signature(vector(settings.pair)).create()
        y = stream.Signature(vector(settings.states)).create()
        taken = offered.valid & offered.ready
        m.d.comb += [
            offered.ready.eq(x.ready & y.ready & waiting.w_rdy & states.w_rdy),
            x.payload.as_value().eq(Cat(given.state.as_value(), given.action.as_value())),
            y.payload.eq(given.next_state),
            states.w_data.eq(given.next_state.as_value()),
            waiting.w_data.eq(given.terms),
            *(valid.eq(taken) for valid in (x.valid, y.valid, waiting.w_en, states.w_en)),
            loss.huber.eq(self.huber),
            loss.terms.payload.as_value().eq(waiting.r_data),
            loss.terms.valid.eq(waiting.r_rdy),
            waiting.r_en.eq(loss.terms.ready),
            tds.w_data.eq(loss.tds.payload),
            tds.w_en.eq(loss.tds.valid & tds.w_rdy),
            loss.tds.ready.eq(tds.w_rdy),
        ]
        self._add(m, f"critic_{p}", stages, x, y)
        return offered, tds, stages

    def _actor_pass(self, m: Module, p: int, given: Any) -> tuple[Any, Stages]:
        """Add the actor's pass of a pipeline, and return its samples (without payload) and its units."""
        settings = self.settings
        actor, critic = settings.actor, settings.layers
        back: list[Any] = [BackwardUnit(layer) for layer in actor[1:]]
        back += [PolicyBackward(critic[0], settings.states), *(BackwardUnit(layer) for layer in critic[1:])]
        stages = Stages(
            forward=[*self._policy(), *self._values()],
            loss=AscentLoss(),
            backward=back,
            gradient=[GradientUnit(layer) for layer in actor],
            held=self._held,
        )
        policy: Any = stages.forward[len(actor) - 1]
        states = self._states(m, f"states_{p}", policy, stages.depth)
        offered = stream.Signature(1).create()
        x = stream.Signature(vector(settings.states)).create()
        y = stream.Signature(1).create()
        taken = offered.valid & offered.ready
        m.d.comb += [
            offered.ready.eq(x.ready & y.ready & states.w_rdy),
            x.payload.eq(given.state),
            states.w_data.eq(given.state.as_value()),
            *(valid.eq(taken) for valid in (x.valid, y.valid, states.w_en)),
        ]
        self._add(m, f"actor_{p}", stages, x, y)
        return offered, stages

    @staticmethod
    def _add(m: Module, name: str, stages: Stages, x: Any, y: Any) -> None:
        """Add the units of a pass in a module of their own."""
        inner = Module()
        stages.add_to(inner, x, y)
        m.submodules[name] = inner
