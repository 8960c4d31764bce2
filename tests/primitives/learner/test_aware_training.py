"""Algorithm 1: when the precision changes, what is captured, what is counted, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from placerl.primitives import learner
from placerl.primitives.learner import aware_training
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.graph_learner import step_graph
from placerl.primitives.quantization import roles
from placerl.primitives.quantization.fixed_point import Q
from placerl.primitives.quantization.precision import Precision, dynamic, fixed_16, fixed_32, quarl
from placerl.primitives.quantization.roles import Plain, Role
from tests.primitives.quantization import cases


def trained(precision: Precision, steps: int, scale: float = 1.0) -> FixedPointLearner:
    algorithm = cases.algorithm("ddpg")
    trainee = aware_training.create(algorithm, precision, backend="reference", batch_size=cases.BATCH_SIZE)
    rng = np.random.default_rng(2)
    for _ in range(steps):
        batch = cases.batch(algorithm, rng)
        batch["reward"] *= np.float32(scale)
        trainee.step(batch)
    return trainee


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"activation_bits": 16}, "delay"), ({"activation_bits": 16, "delay": -1}, "delay"),
     ({"delay": 5}, "delay"), ({"activation_bits": 1, "delay": 5}, "activation_bits"),
     ({"weight_bits": 17, "delay": 5}, "weight_bits"), ({"error_bits": -8, "delay": 5}, "error_bits")],
)  # fmt: skip
def test_a_precision_that_is_none_names_its_field(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: found .*; allowed: "):
        Precision(**arguments)  # type: ignore[arg-type]


def test_a_delay_beyond_the_run_names_its_field() -> None:
    dynamic(99).check_run(100)
    with pytest.raises(ValueError, match=r"^delay: found 100; allowed: less than the run's 100"):
        dynamic(100).check_run(100)


def test_a_device_or_backend_that_is_none_is_named() -> None:
    algorithm = cases.algorithm("ddpg")
    with pytest.raises(ValueError, match=r"^device: found 'tpu'"):
        aware_training.create(algorithm, fixed_32(), device="tpu", batch_size=4)
    with pytest.raises(ValueError, match="backend"):
        aware_training.create(algorithm, fixed_32(), backend="abacus", batch_size=4)


def test_activations_are_quantised_from_step_d_on_over_the_extremes_seen_before() -> None:
    before, after = trained(dynamic(3), 3), trained(dynamic(3), 4)
    assert not before.quantised
    assert after.quantised
    assert after.fixed.extremes == before.fixed.extremes
    affine = after.fixed.affine
    assert affine.keys() == {key for key in before.fixed.extremes if key.startswith("activation/")}
    low, high = before.fixed.extremes["activation/critic/1.weight"]
    hidden = affine["activation/critic/1.weight"]
    assert (low, hidden.zero, hidden.bits) == (0, 0, 16)  # what ReLU gives is not negative
    assert hidden.delta == after.precision.activations.to_float(high) / 2**16


def test_a_state_without_the_ranges_that_are_due_is_refused_and_changes_nothing() -> None:
    """Without ranges nothing is quantised: the learner would go on in 32 bits, and no error would say so."""
    floats = learner.create(cases.algorithm("ddpg"), backend="reference", batch_size=cases.BATCH_SIZE, seed=5)
    of_errors = trained(Precision(error_bits=8, delay=1), 2).state_dict()
    made = trained(dynamic(3), 0)
    before = made.state_dict()
    for state in (floats.state_dict(), of_errors):
        for steps in (3, 4):
            with pytest.raises(
                ValueError,
                match=f"state: found no recorded ranges of activation operands after {steps} gradient steps; "
                "allowed: .* fewer than 3",
            ):
                made.load_state_dict(state | {"gradient_steps": np.array(steps)})
    after = made.state_dict()
    assert after.keys() == before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    made.load_state_dict(floats.state_dict() | {"gradient_steps": np.array(2)})
    rng = np.random.default_rng(3)
    for quantised in (False, True):
        made.step(cases.batch(made.algorithm, rng))
        assert made.quantised == quantised


def test_a_state_with_the_ranges_of_one_role_alone_is_refused() -> None:
    activations = trained(dynamic(3), 4).state_dict()
    with pytest.raises(
        ValueError, match="found no recorded ranges of weight operands after 4 gradient steps"
    ):
        trained(quarl(3), 0).load_state_dict(activations)


def test_a_state_with_the_ranges_that_are_due_is_quantised() -> None:
    made = trained(dynamic(3), 0)
    for steps in (3, 4):
        made.load_state_dict(trained(dynamic(3), steps).state_dict())
        made.step(cases.batch(made.algorithm, np.random.default_rng(3)))
        assert made.quantised
    wide = trained(fixed_32(), 0)
    wide.load_state_dict(made.state_dict())
    assert not wide.quantised


def test_a_range_of_an_unknown_operand_is_named() -> None:
    made = trained(dynamic(3), 1)
    name = "extremes/activation/critic/9.weight"
    with pytest.raises(ValueError, match=f"state: found '{name}'; allowed: the names of this algorithm's"):
        made.load_state_dict(made.state_dict() | {name: np.array([0, 1])})


def test_weights_and_gradients_keep_their_32_bits() -> None:
    made = trained(dynamic(1), 4)
    weights = made.fixed.raw("state/critic/1.weight")
    assert np.abs(weights).max() > 2**16
    assert np.unique(weights & 0xFF).size > 100  # the low bits are in use


def test_8_bit_weights_are_those_that_products_read() -> None:
    made = trained(quarl(1), 3)
    codes = made.fixed.affine["weight/critic/1.weight"].codes(
        made.fixed.raw("state/critic/1.weight"), made.precision.weights
    )
    assert (codes.min() >= 0) & (codes.max() < 2**8)


def test_32_bits_train_as_floats_do() -> None:
    algorithm = cases.algorithm("ddpg")
    fixed = aware_training.create(algorithm, fixed_32(), backend="reference", batch_size=cases.BATCH_SIZE)
    floats = learner.create(algorithm, backend="reference", batch_size=cases.BATCH_SIZE)
    floats.load_state_dict(fixed.state_dict())
    rng = np.random.default_rng(4)
    for _ in range(5):
        batch = cases.batch(algorithm, rng)
        ours, theirs = fixed.step(batch), floats.step(batch)
        # Activations have 16 fraction bits, and a value sums 40 and 33 of them.
        np.testing.assert_allclose(ours.td_errors, theirs.td_errors, atol=2e-3)
    assert fixed.saturated == {}


def test_what_overflows_a_format_saturates_and_is_counted() -> None:
    made = trained(Precision(activations=Q(16, 12)), 1, scale=1e3)  # 8 at most, rewards of thousands
    assert made.saturated["inputs"] > 0
    assert trained(Precision(activations=Q(16, 12)), 1, scale=0.0).saturated.get("inputs", 0) == 0


def test_16_bits_everywhere_cannot_move_a_weight_by_a_small_step() -> None:
    # A step of Adam is at most about its rate, 1e-4 for the actor: less than half of 2^-13 rounds away.
    made = trained(fixed_16(), 1)
    start = aware_training.create(
        cases.algorithm("ddpg"), fixed_16(), backend="reference", batch_size=cases.BATCH_SIZE
    )
    leaf = "state/target_critic/1.weight"
    assert (made.fixed.raw(leaf) == start.fixed.raw(leaf)).all()


@pytest.mark.parametrize("kind", ["ddpg", "td3", "dqn"])
def test_exploring_without_noise_is_acting_in_fixed_point(kind: str) -> None:
    """On observations that do not fit the format: who acts on floats counts none, and takes other actions."""
    algorithm = cases.algorithm(kind)
    silent = {"epsilon_initial": 0.0, "epsilon_final": 0.0} if kind == "dqn" else {"exploration_noise": 0.0}
    algorithm = replace(algorithm, hyperparameters=replace(algorithm.hyperparameters, **silent))
    rng = np.random.default_rng(5)
    observation = 50 * rng.standard_normal((64, 5)).astype(np.float32)
    found = []
    for explores in (False, True):
        trainee = aware_training.create(
            algorithm, Precision(activations=Q(16, 12)), backend="reference", batch_size=cases.BATCH_SIZE
        )  # 8 at most
        assert trainee.saturated.get("inputs", 0) == 0
        action = trainee.explore(observation, 0, rng) if explores else trainee.act(observation)
        assert trainee.saturated["inputs"] > 0
        found.append((action, trainee.saturated))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_random_actions_of_dqn_are_no_work_for_the_device() -> None:
    algorithm = cases.algorithm("dqn")
    trainee = aware_training.create(
        algorithm, Precision(activations=Q(16, 12)), backend="reference", batch_size=cases.BATCH_SIZE
    )
    observation = np.full((8, 5), 1e3, np.float32)  # would saturate
    assert trainee.explore(observation, 0, np.random.default_rng(0)).shape == (8,)  # epsilon is 1 at first
    assert trainee.saturated.get("inputs", 0) == 0


@pytest.mark.parametrize("kind", cases.KINDS)
def test_every_matrix_product_of_every_algorithm_has_a_role(kind: str) -> None:
    algorithm = cases.algorithm(kind)
    for variant in algorithm.variants:
        graph = step_graph(algorithm, cases.BATCH_SIZE, variant)
        assigned = roles.assign(graph, fixed_32())
        for position, node in enumerate(graph.nodes):
            if node.kind == "matmul":
                pair = {operand.role for operand in assigned.operands[position]}
                assert len(pair) == 2
                assert all(operand.layer for operand in assigned.operands[position])
                gradient = Role.ERROR in pair
                assert (assigned.labels[node.outputs[0].buffer] == "gradients") == gradient
        squares = [i for i, buffer in graph.of_kind("state") if "/square/" in buffer.name and buffer.shape]
        assert squares
        assert all(assigned.storage[i] is Plain.BINARY32 for i in squares)
