"""The learner of MAP's accelerator for DDPG: a pass that trains the critic, then one that trains the actor."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.learner_pipeline.layer import vector
from placerl.primitives.fpga.learner_pipeline.layer_shape import FORMAT, TANH_CYCLES
from placerl.primitives.fpga.learner_pipeline.policy_units import PassesLoss, PolicyBackward, PolicyForward
from placerl.primitives.fpga.learner_pipeline.stages import LaterEntry, Stages
from placerl.primitives.fpga.learner_pipeline.td_loss import terms
from placerl.primitives.fpga.learner_pipeline.tensor_units import BackwardUnit, ForwardUnit, GradientUnit
from placerl.primitives.fpga.map_accelerator.learner_ports import TD_DEPTH, deal, learner_ports, sample
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
from placerl.primitives.fpga.map_accelerator.updates import NetworkUpdates, Scalars


class DdpgLearner(wiring.Component):
    """Trains critic and actor on one batch, which it takes twice: the actor's pass needs the new critic.

    The passes share the units of the critic's layers.

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
        pipelines = [self._pipeline(m, p) for p in range(settings.pipelines)]
        deal(m, self, [inputs for inputs, _, _ in pipelines], [queue for _, queue, _ in pipelines])
        every = [stages for _, _, stages in pipelines]

        count = len(actor)
        shared: dict[str, Any] = {"m": m, "learner": self, "samples": self.samples_per_pipeline}
        of_actor = NetworkUpdates(
            layers=actor,
            first=0,
            begin=self.begin & self.acts,
            scalars=self.actor_scalars,
            gradients=[stages.gradient[:count] for stages in every],
            **shared,
        )
        of_critic = NetworkUpdates(
            layers=critic,
            first=len(actor),
            begin=self.begin & ~self.acts,
            scalars=self.scalars,
            gradients=[stages.gradient[count:] for stages in every],
            **shared,
        )
        for stages in every:
            of_actor.write(stages.forward[:count])
            of_critic.write(stages.forward[count:])
            of_actor.write(stages.backward[: count - 1], first=1)
            of_critic.write(stages.backward[count - 1 :])
            of_actor.write(stages.target[:count], target=True)
            of_critic.write(stages.target[count:], target=True)
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

    def _pipeline(self, m: Module, p: int) -> tuple[stream.Interface, Any, Stages]:
        """Add one pipeline, and return its samples, the queue of its TD errors, and its units.

        Samples of the actor's pass enter at the actor's first layer, those of the critic's pass at the critic's first.
        """
        settings = self.settings
        actor, critic = settings.actor, settings.layers
        back: list[Any] = [BackwardUnit(layer) for layer in actor[1:]]
        back += [PolicyBackward(critic[0], settings.states), *(BackwardUnit(layer) for layer in critic[1:])]
        loss = PassesLoss()
        pair = stream.Signature(vector(settings.pair)).create()
        stages = Stages(
            forward=[*self._policy(), *self._values()],
            loss=loss,
            backward=back,
            gradient=[GradientUnit(layer) for layer in settings.networks],
            target=[*self._policy(), *self._values()],
            held=self._held,
            later=LaterEntry(len(actor), pair, ~self.acts),
        )
        depth = stages.depth
        m.submodules[f"terms_{p}"] = waiting = SyncFIFOBuffered(width=terms(1).size, depth=depth)
        m.submodules[f"tds_{p}"] = tds = SyncFIFOBuffered(width=WORD_BITS, depth=TD_DEPTH)
        policies: list[Any] = [units[len(actor) - 1] for units in (stages.forward, stages.target)]
        states = self._states(m, f"states_{p}", policies[0], depth)
        next_states = self._states(m, f"next_states_{p}", policies[1], depth)
        inputs = stream.Signature(sample(settings)).create()
        given = inputs.payload
        x = stream.Signature(vector(settings.states)).create()
        y = stream.Signature(vector(settings.states)).create()
        taken = inputs.valid & inputs.ready
        criticises = taken & ~self.acts
        m.d.comb += [
            inputs.ready.eq(
                Mux(
                    self.acts,
                    x.ready & states.w_rdy,
                    pair.ready & y.ready & waiting.w_rdy & next_states.w_rdy,
                )
            ),
            x.payload.eq(given.state),
            states.w_data.eq(given.state.as_value()),
            *(valid.eq(taken & self.acts) for valid in (x.valid, states.w_en)),
            pair.payload.as_value().eq(Cat(given.state.as_value(), given.action.as_value())),
            y.payload.eq(given.next_state),
            next_states.w_data.eq(given.next_state.as_value()),
            waiting.w_data.eq(given.terms),
            *(valid.eq(criticises) for valid in (pair.valid, y.valid, waiting.w_en, next_states.w_en)),
            loss.acts.eq(self.acts),
            loss.huber.eq(self.huber),
            loss.terms.payload.as_value().eq(waiting.r_data),
            loss.terms.valid.eq(waiting.r_rdy),
            waiting.r_en.eq(loss.terms.ready),
            tds.w_data.eq(loss.tds.payload),
            tds.w_en.eq(loss.tds.valid & tds.w_rdy),
            loss.tds.ready.eq(tds.w_rdy),
        ]
        inner = Module()
        stages.add_to(inner, x, y)
        m.submodules[f"pipeline_{p}"] = inner
        return inputs, tds, stages
