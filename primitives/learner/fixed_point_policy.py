"""The policy with which actors in other threads or processes act for a fixed-point learner."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from placerl.primitives import backend as backends_of
from placerl.primitives.algorithms import Algorithm, tree
from placerl.primitives.graph.executable import Array
from placerl.primitives.learner.acting import acting_by, acting_graph
from placerl.primitives.quantization.affine import Affine
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.precision import Precision

ACT = "act"
"""Name of the graph that computes greedy actions, among the graphs of an executable."""
ROOM = "placerl.primitives.quantization"
"""The package of the backends of fixed-point training."""
_VERSION, _LEAF, _RULE = "version", "raw/", "rule/"


class ActingLeaves(Mapping[str, Array]):
    """The parameters that an algorithm acts with, read from a fixed-point state and converted to floats when used.

    Greedy actions come from the executable's graph `ACT`; only an algorithm that reads parameters itself, such as PPO
    its standard deviations, needs these floats.

    Args:
        executable: holds the algorithm's state.
        structure: a state of the algorithm, which gives the names.
    """

    def __init__(
        self, executable: FixedPointExecutable, algorithm: Algorithm, structure: Any, dtype: Any
    ) -> None:
        # The acting parameters are a selection of the state's leaves, so the names can be selected in the same
        # way.
        names: Any = tree.unflatten(structure, {name: name for name in tree.flatten(structure)})
        chosen: Any = algorithm.acting_parameters(names)
        self._executable, self._dtype = executable, dtype
        self.leaves: dict[str, str] = {name: f"state/{leaf}" for name, leaf in chosen.items()}

    def __getitem__(self, name: str) -> Array:
        return self._executable.leaf(self.leaves[name]).astype(self._dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.leaves)

    def __len__(self) -> int:
        return len(self.leaves)


def published(executable: FixedPointExecutable, leaves: ActingLeaves, version: int) -> dict[str, Array]:
    """Return copies of the data that a `FixedPointPolicy` needs, always with the same names, shapes and dtypes.

    Args:
        executable: the learner's executable, with a variant `ACT`.
        leaves: the acting parameters in it.
        version: a number that changes whenever the data does.

    Returns:
        The acting parameters as stored; for each operand of a product that is or will be quantised, its quantisation
        rule (bits, delta, zero, all 0 until quantisation begins); and the version.
    """
    arrays = {f"{_LEAF}{leaf}": executable.raw(leaf) for leaf in leaves.leaves.values()}
    for key in executable.coded_operands(ACT):
        rule = executable.affine.get(key)
        values = (rule.bits, rule.delta, rule.zero) if rule else (0, 0, 0)
        arrays[f"{_RULE}{key}"] = np.array(values, np.float64)
    return arrays | {_VERSION: np.array([version], np.int64)}


class FixedPointPolicy:
    """A policy that computes exploring actions in fixed point, equal to the learner's bit by bit. It can be pickled.

    Numbers that do not fit their format are not added to the learner's counts, and no ranges are recorded.

    Args:
        backend: the learner's backend, such as "native".
    """

    def __init__(self, algorithm: Algorithm, precision: Precision, backend: str) -> None:
        self._made_of = algorithm, precision, backend
        self._explorer: Algorithm | None = None  # created where it is used
        self._version = -1

    def __reduce__(self) -> Any:
        return type(self), self._made_of

    def explore(
        self,
        parameters: Mapping[str, Array],
        observation: Array,
        environment_step: int,
        rng: np.random.Generator,
    ) -> Array:
        """Return the actions that an actor takes while it gathers experience, computed in fixed point."""
        if self._explorer is None:
            self._explorer = self._acting_algorithm()
        if self._version != (version := int(parameters[_VERSION][0])):
            for leaf in self._leaves.leaves.values():
                self._executable.write_raw(leaf, parameters[f"{_LEAF}{leaf}"])
            rules = {
                key: parameters[f"{_RULE}{key}"]
                for key in self._executable.coded_operands(ACT)
                if parameters[f"{_RULE}{key}"][0]
            }
            self._executable.use_rules(
                {
                    key: Affine(int(bits), float(delta), int(zero))
                    for key, (bits, delta, zero) in rules.items()
                }
            )
            self._version = version
        return self._explorer.explore(self._leaves, observation, environment_step, rng)

    def acting_td_errors(self, parameters: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
        """Raise NotImplementedError: only actions are computed in fixed point."""
        raise NotImplementedError("a fixed-point learner's actors compute actions, not values")

    def _acting_algorithm(self) -> Algorithm:
        algorithm, precision, backend = self._made_of
        module = backends_of.load(ROOM, backend)
        self._executable: FixedPointExecutable = module.executable(
            {ACT: acting_graph(algorithm)}, precision, "cpu"
        )
        structure = algorithm.initialise(torch.Generator().manual_seed(0))
        floats = torch.zeros((), dtype=algorithm.dtype).numpy().dtype
        self._leaves = ActingLeaves(self._executable, algorithm, structure, floats)
        return acting_by(algorithm, self._act)

    def _act(self, observation: Array) -> Array:
        algorithm, _, _ = self._made_of
        _, kind = algorithm.columns(1)["observation"]
        dtype = torch.zeros((), dtype=kind).numpy().dtype
        rows = [
            self._executable.step(ACT, {"batch/observation": one[None].astype(dtype)})["action"]
            for one in observation
        ]
        return np.concatenate(rows)
