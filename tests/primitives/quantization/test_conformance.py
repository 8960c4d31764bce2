"""Every backend of fixed-point training against the definition in NumPy, to the last bit."""

from collections.abc import Callable

import numpy as np
import pytest

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.learner import aware_training
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.native_backend import NativeFixedPointExecutable
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.torch_backend import TorchExecutable
from tests.primitives.quantization import cases
from tests.primitives.quantization.definition import inputs_of, learner, raw_state

OTHERS = ("torch", "native avx512vnni", "native avx512", "native avx2", "native portable")
STEPS = 5


def other(name: str, algorithm: Algorithm, precision: Precision) -> FixedPointExecutable:
    graphs = {variant: step_graph(algorithm, cases.BATCH_SIZE, variant) for variant in algorithm.variants}
    if name == "torch":
        return TorchExecutable(graphs, precision)
    try:
        return NativeFixedPointExecutable(graphs, precision, simd=name.split()[1])
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", cases.KINDS)
@pytest.mark.parametrize(
    "name", [*OTHERS[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS[2:])]
)
def test_every_algorithm_takes_the_same_steps_to_the_last_bit(name: str, kind: str) -> None:
    algorithm, precision = cases.algorithm(kind), cases.PRECISIONS["narrow everywhere"]
    agree(name, algorithm, precision)


@pytest.mark.parametrize("precision", cases.PRECISIONS)
@pytest.mark.parametrize("name", OTHERS)
def test_every_precision_takes_the_same_steps_to_the_last_bit(name: str, precision: str) -> None:
    agree(name, cases.algorithm("ddpg"), cases.PRECISIONS[precision])


@pytest.mark.parametrize("name", OTHERS)
def test_moments_too_small_to_be_normal_are_zero_in_every_backend(name: str) -> None:
    """Moments of gradients that vanished: on both sides of the smallest normal number of binary32."""
    smallest = float(np.finfo(np.float32).tiny)

    def decayed(leaf: str, value: np.ndarray) -> np.ndarray:
        if "/mean/" not in leaf and "/square/" not in leaf:
            return value
        factors = 2.0 ** np.random.default_rng(len(leaf)).uniform(-3, 3, value.shape)
        return np.where(np.arange(value.size).reshape(value.shape) % 2, factors * smallest, value)

    agree(name, cases.algorithm("ddpg"), cases.PRECISIONS["fixed 32"], decayed)
    definition = learner(cases.algorithm("ddpg"), cases.PRECISIONS["fixed 32"])
    leaf, value = next((leaf, value) for leaf, value in definition.fixed.state().items() if "/mean/" in leaf)
    definition.fixed.write_state(leaf, np.full_like(value, 0.9 * smallest))
    assert not definition.fixed.state()[leaf].any()
    definition.fixed.write_state(leaf, np.full_like(value, smallest))
    assert (definition.fixed.state()[leaf] == smallest).all()


def agree(
    name: str,
    algorithm: Algorithm,
    precision: Precision,
    changed: Callable[[str, np.ndarray], np.ndarray] = lambda leaf, value: value,
) -> None:
    """Steps on both, from an initial state that may be changed; state, outputs, extremes and counts are the same."""
    definition = learner(algorithm, precision)
    executable = other(name, algorithm, precision)
    for leaf, value in definition.fixed.state().items():
        for one in (definition.fixed, executable):
            one.write_state(leaf, changed(leaf, value))
    rng = np.random.default_rng(5)
    for step in range(STEPS):
        inputs = inputs_of(definition, rng)
        variant = algorithm.variant(step)
        if precision.narrows and step == precision.delay:
            definition.fixed.quantise()
            executable.quantise()
        expected, found = (made.step(variant, inputs) for made in (definition.fixed, executable))
        for output, value in expected.items():
            np.testing.assert_array_equal(found[output], value, err_msg=f"{output}, step {step}")
        for (leaf, one), (_, two) in zip(raw_state(definition.fixed), raw_state(executable), strict=True):
            np.testing.assert_array_equal(two, one, err_msg=f"{leaf}, step {step}")
    assert executable.extremes == definition.fixed.extremes
    assert executable.affine == definition.fixed.affine
    # The definition saw nothing but the same steps, and rounded the initial state as well, in range.
    assert executable.saturated == definition.fixed.saturated
    if isinstance(executable, NativeFixedPointExecutable):
        assert executable.narrow_products > 0


@pytest.mark.parametrize(
    "pair", [np.zeros(1, np.int64), np.array([1.0, 2.0]), np.array([2, 1]), np.array("x")]
)
def test_wrong_ranges_are_an_error_and_change_nothing(pair: np.ndarray) -> None:
    algorithm, precision = cases.algorithm("ddpg"), cases.PRECISIONS["dynamic"]
    first, second = (
        aware_training.create(algorithm, precision, batch_size=cases.BATCH_SIZE, seed=seed) for seed in (8, 9)
    )
    first.step(cases.batch(algorithm, np.random.default_rng(8)))
    state, before = first.state_dict(), second.state_dict()
    key = next(name for name in state if name.startswith("extremes/"))
    with pytest.raises(ValueError, match=rf"state\['{key}'\]: found .*; allowed: two whole numbers"):
        second.load_state_dict(state | {key: pair})
    after = second.state_dict()
    assert after.keys() == before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_native_training_and_acting_go_on_from_a_checkpoint_to_the_last_bit() -> None:
    algorithm, precision = cases.algorithm("ddpg"), cases.PRECISIONS["dynamic"]
    rng = np.random.default_rng(8)
    batches = [cases.batch(algorithm, rng) for _ in range(6)]
    observation = np.float32([0.3, -1.0, 0.1, 2.0, 0.5])
    first = aware_training.create(algorithm, precision, batch_size=cases.BATCH_SIZE)
    for one in batches[:4]:
        first.step(one)
    second = aware_training.create(
        algorithm, precision, backend="reference", batch_size=cases.BATCH_SIZE, seed=9
    )
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second.act(observation), first.act(observation))
    for one in batches[4:]:
        np.testing.assert_array_equal(second.step(one).td_errors, first.step(one).td_errors)
    for (name, one), (_, two) in zip(raw_state(first.fixed), raw_state(second.fixed), strict=True):
        np.testing.assert_array_equal(two, one, err_msg=name)
