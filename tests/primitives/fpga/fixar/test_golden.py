"""The accelerator's golden model next to the project's fixed-point training in software, step by step."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives import algorithms, learner
from placerl.primitives.fpga.fixar.adam import corrections
from placerl.primitives.fpga.fixar.shape import ACTIVATIONS, GRADIENTS, WEIGHTS, FixarShape
from placerl.primitives.quantization import Affine
from tests.primitives.fpga.fixar.golden import GoldenFixar, RawBatch, UpdateSettings

SHAPE = FixarShape(state=5, action=3, hidden=(40, 33), side=16)
SIZE = 12


def columns(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a batch of numbers that both sides' formats hold exactly."""

    def numbers(*sizes: int) -> np.ndarray:
        return (np.round(rng.standard_normal(sizes) * 2**12) / 2**12).astype(np.float32)

    return {
        "observation": numbers(SIZE, 5),
        "action": np.clip(numbers(SIZE, 3), -1, 1),
        "reward": numbers(SIZE),
        "next_observation": numbers(SIZE, 5),
        "terminated": (rng.random(SIZE) < 0.2).astype(np.float32),
    }


def raw_batch(batch: dict[str, np.ndarray]) -> RawBatch:
    def raw(name: str) -> np.ndarray:
        return ACTIVATIONS.from_float(batch[name]).raw.astype(np.int64)

    discount = np.round(0.99 * (1 - batch["terminated"].astype(np.float64)) * 2**30).astype(np.int64)
    weight = np.full(SIZE, round(2 / SIZE * 2**30))
    names = ("observation", "action", "reward", "next_observation")
    state, action, reward, following = (raw(name) for name in names)
    return RawBatch(state, action, reward, following, discount, weight)


NETWORKS = ("actor", "critic")


def layer_of(state: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    """Return a network's parameters as matrices whose last column is the bias."""
    return [
        np.concatenate([state[f"{name}/{k}.weight"], state[f"{name}/{k}.bias"][:, None]], 1) for k in range(3)
    ]


def load(golden: GoldenFixar, state: dict[str, np.ndarray]) -> None:
    for network, name in zip(golden.layers, NETWORKS, strict=True):
        for prefix, part in (("", "weights"), ("target_", "targets")):
            for layer, matrix in zip(network, layer_of(state, prefix + name), strict=True):
                layer[part] = WEIGHTS.from_float(matrix).raw.astype(np.int64)


def settings(step: int) -> UpdateSettings:
    critic_rate, epsilon = corrections(1e-3, step)
    actor_rate, _ = corrections(1e-4, step)
    return UpdateSettings(critic_rate, actor_rate, epsilon, 328, -round(2**24 / SIZE))


@pytest.mark.parametrize("tau", [-1, 1 << 16])
def test_a_tau_beyond_its_register_is_refused(tau: int) -> None:
    with pytest.raises(ValueError, match=f"^tau: found {tau}; allowed: 0 to 65535"):
        replace(settings(1), tau=tau)


def test_a_step_is_that_of_the_software_to_a_few_units_of_the_formats() -> None:
    rng = np.random.default_rng(3)
    algorithm = algorithms.create(
        "ddpg",
        observation_shape=(5,),
        action_size=3,
        action_kind="continuous",
        network={"hidden": SHAPE.hidden},
    )
    software = learner.create(algorithm, backend="reference", batch_size=SIZE, precision="fixed32")
    golden = GoldenFixar(SHAPE)
    load(golden, software.state_dict())
    batch = columns(rng)
    found = golden.step(raw_batch(batch), settings(1))
    wanted = software.step(batch).td_errors
    # Each layer rounds a product, and then its sum with the bias, where the hardware rounds once.
    apart = np.abs(found - wanted * 2**16)
    assert apart.max() <= 8
    # A unit of 2^-16 of an error is 2^8 units of a gradient, times 2 / B and an activation (here below 4). Besides,
    # each of the groups rounds a gradient by half a unit.
    reach = 4 * 2 * 2**8 * apart.mean() + SIZE
    assert reach < 2**11
    state = software.state_dict()
    for network, name in zip(golden.layers, NETWORKS, strict=True):
        means = layer_of(state, f"{name}_adam/mean")
        for layer, mean, weights in zip(network, means, layer_of(state, name), strict=True):
            # The first mean is a tenth of the gradient.
            gradient = mean / 0.1 * 2**GRADIENTS.fraction_bits
            own = layer["means"] / 2**8 / (6554 / 65536)
            assert np.abs(gradient).max() > 2**14
            assert np.abs(own - gradient).max() <= reach
            # Adam's first change is the rate, with the gradient's sign, wherever that is beyond doubt.
            clear = np.abs(gradient) > 2**12
            assert clear.mean() > 0.1
            way = np.abs(layer["weights"] / 2**26 - weights)
            assert way[clear].max() < 1e-2 * 1e-3


def test_codes_are_those_of_algorithm_1_over_the_symmetric_range() -> None:
    golden = GoldenFixar(SHAPE)
    raw = np.random.default_rng(0).integers(-(1 << 21), 1 << 21, (50, 5))
    golden._stored(raw, 0)
    golden.halves = True
    limit = 2.0 ** (golden.shift(0) + 15 - 16)
    rule = Affine.of_range(16, -limit, limit)
    assert rule.zero == 1 << 15
    assert limit >= np.abs(raw).max() / 2**16 > limit / 2
    np.testing.assert_array_equal(golden._stored(raw, 0), rule.centred(raw, ACTIVATIONS).raw)


@pytest.mark.parametrize("overlap", [False, True])
def test_the_networks_learn_in_both_modes(overlap: bool) -> None:
    """A critic whose targets are the rewards, a function of state and action, comes to know them."""
    rng = np.random.default_rng(5)
    golden = GoldenFixar(SHAPE, overlap=overlap)
    golden.initialise(rng)

    def sample() -> RawBatch:
        made = raw_batch(columns(rng))
        made.reward = made.state[:, 0] - made.action[:, 1]
        made.discount = np.zeros(SIZE, np.int64)
        return made

    def error(steps: range) -> float:
        errors = [golden.step(sample(), settings(step)) for step in steps]
        return float(np.abs(np.array(errors)).mean()) / 2**16

    first = error(range(1, 11))
    error(range(11, 200))
    middle = error(range(200, 220))
    golden.halves = True
    last = error(range(220, 300))
    assert middle < first / 2
    assert last < middle
