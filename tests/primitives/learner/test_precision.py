"""`learner.create(precision=...)`: which backends have it, and that a fixed-point learner is a learner as any other."""

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms, learner
from placerl.primitives.learner import Learner
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.quantization.precision import Precision, dynamic, fixed_16, fixed_32
from tests.primitives.quantization import cases

FIXED = ("native", "reference", "torch")
BACKENDS = [status.name for status in learner.backends() if status.available]
FORMATS: dict[str, Precision] = {"fixed32": fixed_32(), "fixed16": fixed_16(), "dynamic": dynamic(2)}


def learner_of(
    backend: str, precision: str | Precision = "fixed32", kind: str = "ddpg", **options: object
) -> Learner:
    if precision == "dynamic":
        options = {"delay": 2} | options
    return learner.create(
        cases.algorithm(kind), backend=backend, batch_size=cases.BATCH_SIZE, precision=precision, **options
    )


def batches(kind: str, count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(6)
    return [cases.batch(cases.algorithm(kind), rng) for _ in range(count)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_the_precisions_that_it_lists_and_refuses_the_others(backend: str) -> None:
    allowed = learner.precisions(backend)
    fixed = tuple(FORMATS) if backend in FIXED else ()
    assert allowed == ("float32", *fixed, *(("bfloat16",) if backend == "native" else ()))
    for name, formats in FORMATS.items():
        if name in allowed:
            trainee = learner_of(backend, name)
            assert isinstance(trainee, FixedPointLearner)
            assert (trainee.backend, trainee.precision) == (backend, formats)
        else:
            with pytest.raises(ValueError, match=rf"^precision: found '{name}'; allowed: float32$"):
                learner_of(backend, name)
            with pytest.raises(ValueError, match=r"^precision: found formats; allowed: float32"):
                learner_of(backend, formats)


def test_floats_are_the_default() -> None:
    for found in (learner_of("native", "float32"), learner.create(cases.algorithm("ddpg"), batch_size=4)):
        assert not isinstance(found, FixedPointLearner)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"precision": "fixed23"},
            r"^precision: found 'fixed23'; allowed: bfloat16, dynamic, fixed16, fixed32, float32$",
        ),
        ({"precision": "dynamic"}, "^delay: found nothing; allowed: gradient steps, at least 1"),
        ({"precision": "dynamic", "delay": 0}, "^delay: found 0"),
        ({"precision": "fixed32", "delay": 4}, "^delay: found 4; allowed: nothing for fixed32"),
        ({"delay": 4}, "^delay: found 4; allowed: nothing for float32"),
        ({"precision": "bfloat16", "delay": 4}, "^delay: found 4; allowed: nothing for bfloat16"),
        ({"precision": "bfloat16", "backend": "torch"}, "^precision: found 'bfloat16'; allowed: dynamic"),
        ({"products": "bfloat17"}, "^products: found 'bfloat17'"),
        ({"precision": dynamic(2), "delay": 4}, "^delay: found 4; allowed: nothing with formats"),
        ({"precision": "fixed32", "threads": 65}, "^threads: found 65"),
        ({"precision": "fixed32", "threads": 2, "backend": "reference"}, "^threads: found 2"),
        ({"precision": "fixed32", "threads": 2, "backend": "torch"}, "^threads: found 2"),
        ({"precision": "fixed32", "device": "cuda"}, "^device: found 'cuda'"),
    ],
)
def test_what_is_out_of_range_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner.create(cases.algorithm("ddpg"), **{"backend": "native", "batch_size": 4} | options)


@pytest.mark.parametrize("precision", ["fixed32", "dynamic"])
def test_an_algorithm_in_float64_takes_the_same_steps_in_fixed_point(precision: str) -> None:
    algorithm = algorithms.create("dqn", observation_shape=(4,), action_size=3, dtype=torch.float64)
    options = {"batch_size": 8, "precision": precision, "delay": 2 if precision == "dynamic" else None}
    one, two = (learner.create(algorithm, backend=name, **options) for name in ("reference", "native"))
    rng = np.random.default_rng(0)
    for _ in range(4):
        batch = {
            "observation": rng.standard_normal((8, 4)),
            "action": rng.integers(0, 3, 8),
            "reward": rng.standard_normal(8),
            "next_observation": rng.standard_normal((8, 4)),
            "terminated": rng.random(8) < 0.3,
        }
        expected, found = one.step(batch), two.step(batch)
        np.testing.assert_array_equal(found.td_errors, expected.td_errors)
        assert found.losses == expected.losses
    assert two.act(batch["observation"]).tolist() == one.act(batch["observation"]).tolist()
    with pytest.raises(ValueError, match=r"^observation: found NaN or infinity"):
        two.act(np.full((1, 4), np.nan))


def test_products_of_another_kind_go_with_bfloat16_alone() -> None:
    chosen = learner_of("native", "bfloat16", products="emulated")
    assert chosen.products == "emulated"
    with pytest.raises(ValueError, match=r"^products: found 'float32'"):
        learner_of("native", "bfloat16", products="float32")


def test_an_unknown_backend_has_no_precisions() -> None:
    with pytest.raises(ValueError, match=r"^backend: unknown 'abacus'"):
        learner.precisions("abacus")


@pytest.mark.parametrize("kind", ["ddpg", "dqn"])
@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("backend", FIXED)
def test_it_acts_explores_and_steps_as_a_learner_in_floats_does(
    backend: str, precision: str, kind: str
) -> None:
    fixed, floats = learner_of(backend, precision, kind), learner_of("reference", "float32", kind)
    observation = np.random.default_rng(1).standard_normal((7, 5)).astype(np.float32)
    for step, batch in enumerate(batches(kind, 3)):
        found, like = fixed.step(batch), floats.step(batch)
        assert (found.td_errors.shape, found.td_errors.dtype) == (like.td_errors.shape, like.td_errors.dtype)
        assert found.losses.keys() == like.losses.keys()
        assert fixed.gradient_steps == step + 1
    for one in (observation, observation[0]):
        for act in (Learner.act, lambda made, one: made.explore(one, 0, np.random.default_rng(2))):
            found, like = act(fixed, one), act(floats, one)
            assert (found.shape, found.dtype) == (like.shape, like.dtype)
    found, like = fixed.parameters(), floats.parameters()
    assert {name: (value.shape, value.dtype) for name, value in found.items()} == {
        name: (value.shape, value.dtype) for name, value in like.items()
    }


@pytest.mark.parametrize("backend", FIXED)
def test_parameters_and_state_are_copies(backend: str) -> None:
    fixed = learner_of(backend)
    before = fixed.state_dict()
    for array in (*fixed.parameters().values(), *fixed.state_dict().values()):
        array[...] = 0
    for name, value in fixed.state_dict().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


@pytest.mark.parametrize("backend", FIXED)
def test_a_batch_that_is_refused_leaves_the_state_as_it_was(backend: str) -> None:
    fixed = learner_of(backend)
    (batch,) = batches("ddpg", 1)
    before = fixed.state_dict()
    with pytest.raises(ValueError, match=r"^reward: found NaN"):
        fixed.step(batch | {"reward": np.full(cases.BATCH_SIZE, np.nan, np.float32)})
    assert fixed.gradient_steps == 0
    for name, value in fixed.state_dict().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_backends_take_the_same_steps_to_the_last_bit(backend: str, precision: str) -> None:
    definition, other = learner_of("reference", precision, seed=3), learner_of(backend, precision, seed=3)
    for batch in batches("ddpg", 4):
        np.testing.assert_array_equal(other.step(batch).td_errors, definition.step(batch).td_errors)
    for name, value in definition.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value, err_msg=name)


def test_dynamic_narrows_after_its_delay() -> None:
    fixed = learner_of("native", "dynamic", delay=3)
    assert isinstance(fixed, FixedPointLearner)
    found = []
    for batch in batches("ddpg", 4):
        fixed.step(batch)
        found.append(fixed.quantised)
    assert found == [False, False, False, True]
