import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives.replay.n_step import NStepReturns

GAMMA = 0.5


def a_step(number: int, rewards: list[float], terminated: list[bool], truncated: list[bool]) -> dict:
    """Environment e at step t observes 100 e + t, then 100 e + t + 0.5."""
    observation = np.arange(len(rewards))[:, None] * 100.0 + number
    return {
        "observation": observation,
        "action": np.full(len(rewards), number),
        "reward": np.array(rewards),
        "next_observation": observation + 0.5,
        "terminated": np.array(terminated),
        "truncated": np.array(truncated),
    }


def rows(batch: dict | None) -> list[tuple]:
    """(observation, reward, next observation, terminated, discount) of each transition."""
    if batch is None:
        return []
    columns = ("observation", "reward", "next_observation", "terminated", "discount")
    return list(zip(*(batch[name].reshape(len(batch["reward"])).tolist() for name in columns), strict=True))


def naive(n: int, steps: list[list[tuple[float, bool, bool]]]) -> list[list[tuple]]:
    """For each environment, its transitions in order, written down from the definition."""
    out = []
    for environment, trajectory in enumerate(steps):
        transitions = []
        for t in range(len(trajectory)):
            total, discount = 0.0, 1.0
            for k in range(t, min(t + n, len(trajectory))):
                reward, terminated, truncated = trajectory[k]
                total += discount * reward
                discount *= GAMMA
                if terminated or truncated or k == t + n - 1:
                    base = 100.0 * environment
                    transitions.append((base + t, total, base + k + 0.5, terminated, discount))
                    break
        out.append(transitions)
    return out


@given(
    n=st.integers(1, 5),
    steps=st.integers(1, 3).flatmap(
        lambda environments: st.lists(
            st.lists(
                st.tuples(st.integers(-4, 4).map(float), st.booleans(), st.booleans()),
                min_size=environments,
                max_size=environments,
            ),
            max_size=20,
        )
    ),
)
def test_equals_the_definition(n: int, steps: list[list[tuple[float, bool, bool]]]) -> None:
    environments = len(steps[0]) if steps else 1
    returns = NStepReturns(n, GAMMA, environments)
    got: list[list[tuple]] = [[] for _ in range(environments)]
    for number, step in enumerate(steps):
        batch = returns.add(a_step(number, *(list(column) for column in zip(*step, strict=True))))
        for row in rows(batch):
            got[int(row[0] // 100)].append(row)
    assert got == naive(n, [[step[e] for step in steps] for e in range(environments)])


def test_a_terminated_episode_takes_no_value_and_a_truncated_one_does() -> None:
    for terminated in (True, False):
        returns = NStepReturns(3, GAMMA)
        assert returns.add(a_step(0, [1.0], [False], [False])) is None
        assert rows(returns.add(a_step(1, [8.0], [terminated], [not terminated]))) == [
            (0.0, 5.0, 1.5, terminated, 0.25),
            (1.0, 8.0, 1.5, terminated, 0.5),
        ]
        # the next episode starts afresh
        assert returns.add(a_step(2, [1.0], [False], [False])) is None


def test_columns_have_the_dtypes_of_the_replay() -> None:
    batch = NStepReturns(1, GAMMA).add(a_step(0, [1.0], [False], [True]))
    assert batch is not None
    assert [batch[name].dtype for name in ("reward", "discount", "terminated")] == [
        np.float32,
        np.float32,
        np.bool_,
    ]
    assert "truncated" not in batch


def test_refuses_what_does_not_fit() -> None:
    for arguments in [(0, 0.9, 1), (1, 1.1, 1), (1, -0.1, 1), (1, 0.9, 0)]:
        with pytest.raises(ValueError, match="allowed"):
            NStepReturns(*arguments)
    returns = NStepReturns(2, GAMMA, 2)
    with pytest.raises(ValueError, match="reward"):
        returns.add(a_step(0, [1.0, 2.0], [False] * 2, [False] * 2) | {"reward": np.zeros(3)})
    step = a_step(0, [1.0, 2.0], [False] * 2, [False] * 2)
    del step["truncated"]
    with pytest.raises(ValueError, match="truncated"):
        returns.add(step)


def test_later_steps_keep_their_numbers_or_are_refused() -> None:
    returns = NStepReturns(1, GAMMA)
    whole = a_step(0, [1.0], [False], [False])
    whole |= {"observation": np.array([[0]]), "next_observation": np.array([[1]])}
    assert returns.add(whole) is not None
    with pytest.raises(ValueError, match=r"observation.*float64.*int64"):
        returns.add(a_step(1, [1.0], [False], [False]))
    with pytest.raises(ValueError, match="next_observation"):
        returns.add(whole | {"next_observation": np.zeros((1, 2))})
    assert rows(returns.add(whole)) == [(0, 1.0, 1, False, GAMMA)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reward", ["1"]),
        ("reward", [None]),
        ("reward", [1j]),
        ("reward", [3e38]),
        ("terminated", [None]),
        ("terminated", ["False"]),
        ("terminated", [0.0]),
        ("terminated", [np.nan]),
        ("truncated", [0]),
    ],
)
def test_what_would_become_another_number_is_refused_by_name(name: str, value: object) -> None:
    returns = NStepReturns(2, GAMMA)
    with pytest.raises((TypeError, ValueError), match=rf"^step\['{name}'\]: found .*; allowed: "):
        returns.add(a_step(0, [1.0], [False], [False]) | {name: np.array(value)})
    assert returns.add(a_step(0, [1.0], [False], [False])) is None
    assert rows(returns.add(a_step(1, [1.0], [True], [False]))) is not None


@pytest.mark.parametrize(
    ("name", "value"), [("n", 2.5), ("n", True), ("gamma", "0.9"), ("environments", "1")]
)
def test_arguments_are_numbers(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^{name}: found .*; allowed: "):
        NStepReturns(**{"n": 1, "gamma": 0.9} | {name: value})  # type: ignore[arg-type]


def test_integers_beyond_those_of_the_first_step_are_refused() -> None:
    returns = NStepReturns(2, GAMMA)
    first = a_step(0, [1.0], [False], [False]) | {"action": np.array([1], np.int8)}
    returns.add(first)
    with pytest.raises(ValueError, match=r"^step\['action'\]: found 300; allowed: -128 to 127$"):
        returns.add(first | {"action": np.array([300])})


def test_steps_together_are_those_one_after_another():
    apart, together = NStepReturns(3, GAMMA, 2), NStepReturns(3, GAMMA, 2)
    steps = [a_step(t, [1.0, t], [t == 4, False], [False, t == 5]) for t in range(8)]
    expected = [row for one in steps for row in rows(apart.add(one))]
    columns = {name: np.concatenate([one[name] for one in steps]) for name in steps[0]}
    first, rest = (
        {name: column[part] for name, column in columns.items()} for part in (slice(4), slice(4, 16))
    )
    assert together.add_steps(first) is None
    assert rows(together.add_steps(rest)) == expected
