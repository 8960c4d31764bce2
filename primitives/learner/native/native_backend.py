"""The backend "native": a learner in C++, a `GraphLearner` whose executor also computes the actors' actions.

The module `executable` describes how it runs a gradient step. An actor that requests one action at a time spends most
of its time in calls: NumPy needs about ten of them for three layers. Here the algorithm's `act`, and `explored` with
its noise, are two more programs of the executor, which read the learner's weights in place.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from placerl.primitives import checks
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.graph.executable import Array, Executable
from placerl.primitives.graph.graph import Graph, UnsupportedOperationError
from placerl.primitives.interrupts import whole_imports
from placerl.primitives.learner.acting import acting_by, acting_graph, exploring_graph
from placerl.primitives.learner.native.calls import NativeCalls
from placerl.primitives.learner.native.executable import PRODUCTS, NativeExecutable
from placerl.primitives.quantization.precision import BFLOAT_16

IN_BFLOAT_16 = PRODUCTS[1:]
PRECISIONS = (BFLOAT_16,)
"""Precisions besides float32 and fixed point; `create` takes them as `products`."""
_ACT, _EXPLORE = "act", "explore"


def unavailable_reason() -> str:
    """Return why this backend cannot be used here; empty if it can."""
    try:
        with whole_imports():
            from placerl.primitives import _native  # noqa: F401
    except ImportError as error:
        return f"the native extension is not built: {error}"
    return ""


def compile_graphs(graphs: Mapping[str, Graph]) -> Executable:
    """Return an executable for step graphs, on the widest instruction set of this processor."""
    return NativeExecutable(graphs)


def check_device(device: str) -> None:
    """Raise ValueError unless the device is "cpu", the only one."""
    checks.one_of("device", device, ("cpu",))


class NativeLearner(NativeCalls):
    """The learner on the native executor; created by `primitives.learner.create`.

    The algorithm's steps, its `act` and `explored` are traced and lowered. If the executor cannot run `act`, NumPy
    does: `acts_natively` is then False, and `acting_refusal` says why. If it cannot run `explored`, NumPy runs the part
    beyond `act`.

    Args:
        device: "cpu", the only one.
        simd: instruction set, "avx512", "avx2" or "portable"; empty for the widest one of this processor.
        threads: threads that share the large operations of a step, at most 64; the results do not depend on it.
        products: how matrix products are computed, such as "float32" or "bfloat16"; one of `PRODUCTS` of `executable`.

    Raises:
        ValueError: the device is not "cpu", the processor lacks the instruction set, or the number of threads is out
            of range.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        device: str = "cpu",
        batch_size: int,
        seed: int = 0,
        simd: str = "",
        threads: int = 1,
        products: str = "float32",
    ) -> None:
        check_device(device)
        self._acting_refusal = ""

        def compiled(graphs: Mapping[str, Graph]) -> NativeExecutable:
            executable = partial(NativeExecutable, simd=simd, threads=threads, products=products)
            for acting in ({_ACT: acting_graph, _EXPLORE: exploring_graph}, {_ACT: acting_graph}):
                try:
                    return executable(
                        {**graphs, **{name: graph_of(algorithm) for name, graph_of in acting.items()}}
                    )
                except UnsupportedOperationError as error:
                    self._acting_refusal = "" if _EXPLORE in acting else str(error)
            return executable(graphs)

        super().__init__(
            algorithm,
            compiled,
            backend="native",
            device=device,
            batch_size=batch_size,
            seed=seed,
        )
        assert isinstance(self.executable, NativeExecutable)
        if algorithm.finite_state:
            self.executable.require_finite_state()
        self._acts = _ACT in self.executable.graphs
        self._explores = _EXPLORE in self.executable.graphs
        self._explorer = acting_by(algorithm, self._act) if self._acts else algorithm

    @property
    def products(self) -> str:
        """The way in which matrix products are computed, such as "float32"; one of `executable.PRODUCTS`."""
        assert isinstance(self.executable, NativeExecutable)
        return self.executable.products

    @property
    def acts_natively(self) -> bool:
        """Whether the executor computes actions; if not, NumPy does."""
        return self._acts

    @property
    def acting_refusal(self) -> str:
        """The operation of `act` or `explored` that the executor lacks; empty if it computes actions."""
        return self._acting_refusal

    @property
    def exploring_program(self) -> int:
        """The executor's program of an exploring action, from an observation and the random numbers of `explored`.

        Raises:
            TypeError: the executor does not compute such actions (`acting_refusal`).
        """
        if not self._explores:
            raise TypeError(f"learner: found actions that NumPy computes: {self._acting_refusal}")
        return self.programs._programs[_EXPLORE]

    @property
    def _searches_observations(self) -> bool:
        return not self._acts

    def _act(self, observation: Array) -> Array:
        return self._acted(_ACT, observation, {}) if self._acts else super()._act(observation)

    def explore(self, observation: Array, environment_step: int, rng: np.random.Generator) -> Array:
        """Return the actions that an actor takes while it gathers experience, computed by the executor if it can."""
        self._check_process()
        batch, single = self._exploring(observation, environment_step, rng)
        if self._explores:
            draws = self.algorithm.draw_exploration(len(batch), environment_step, rng)
            action = self._acted(_EXPLORE, batch, draws)
        else:
            action = self._explorer.explore(self._acting_arrays(), batch, environment_step, rng)
        return action[0] if single else action


create = NativeLearner
