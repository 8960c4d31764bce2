"""ContinuousCartPole-v0: Gymnasium's cart-pole pushed by a continuous force.

Importing this module registers the environment. It needs only Gymnasium and NumPy, so a baseline in its own
virtual environment can use it with this folder on `PYTHONPATH`:

    >>> import gymnasium
    >>> gymnasium.make("continuous_cartpole:ContinuousCartPole-v0").action_space
    Box(-1.0, 1.0, (1,), float32)
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box

ID = "ContinuousCartPole-v0"
MAX_EPISODE_STEPS = 500


class ContinuousCartPoleEnv(CartPoleEnv):
    """The cart-pole that MAP Table III lists for a DDPG agent, with 4 state variables and 1 continuous action.

    MAP does not say which environment it used. This one is Gymnasium's `CartPoleEnv` (CartPole-v1) with one
    change: CartPole-v1 pushes with -10 N or +10 N, this environment pushes with `10 N x action`. Physical
    constants, Euler integration, starting state, rewards and the end of an episode are inherited, so actions of
    -1 and +1 give CartPole-v1's trajectories. The equations are evaluated in Python floats: for four numbers this
    costs a fraction of NumPy's call overhead.

    ## Action space

    `Box(-1, 1, (1,), float32)`. A value outside the range is clipped; NaN raises ValueError.

    | Num | Action                        | Min | Max | Unit              |
    |-----|-------------------------------|-----|-----|-------------------|
    | 0   | force on the cart (+ = right) | -1  | 1   | 10 N (`force_mag`) |

    ## Observation space

    `Box((4,), float32)`, as CartPole-v1:

    | Num | Observation           | Min    | Max   | Unit  |
    |-----|-----------------------|--------|-------|-------|
    | 0   | cart position         | -4.8   | 4.8   | m     |
    | 1   | cart velocity         | -inf   | inf   | m/s   |
    | 2   | pole angle            | -0.418 | 0.418 | rad   |
    | 3   | pole angular velocity | -inf   | inf   | rad/s |

    ## Reward

    +1 for every step taken, the terminating one included.

    ## Starting state

    Each observation uniform in (-0.05, 0.05).

    ## End of an episode

    1. Termination: the pole leans more than 12 degrees (0.2095 rad).
    2. Termination: the cart's centre leaves +-2.4 m.
    3. Truncation: 500 steps (the `TimeLimit` that `gymnasium.make` adds).

    ## Version history

    * v0: first version.
    """

    # Wider types than in Gymnasium's annotations: here the state is four Python floats.
    state: Any
    steps_beyond_terminated: Any

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Push the cart for 20 ms.

        Args:
            action: (1,) float, in units of 10 N.

        Returns:
            Observation (4,) float32, reward, terminated, truncated (always False here), info.

        Raises:
            ValueError: the action is not a number.
            RuntimeError: `reset` has not been called, or the episode has terminated.
        """
        if self.state is None or self.steps_beyond_terminated is not None:
            raise RuntimeError("step: the episode has not begun or has terminated; call reset first")
        push = float(action[0])
        if math.isnan(push):
            raise ValueError("action: found nan; allowed: a number, clipped to [-1, 1]")
        force = self.force_mag * min(1.0, max(-1.0, push))
        x, x_dot, theta, theta_dot = self.state
        sine, cosine = math.sin(theta), math.cos(theta)
        drive = (force + self.polemass_length * theta_dot * theta_dot * sine) / self.total_mass
        angular_acceleration = (self.gravity * sine - cosine * drive) / (
            self.length * (4.0 / 3.0 - self.masspole * cosine * cosine / self.total_mass)
        )
        acceleration = drive - self.polemass_length * angular_acceleration * cosine / self.total_mass
        x += self.tau * x_dot
        x_dot += self.tau * acceleration
        theta += self.tau * theta_dot
        theta_dot += self.tau * angular_acceleration
        self.state = (x, x_dot, theta, theta_dot)
        terminated = abs(x) > self.x_threshold or abs(theta) > self.theta_threshold_radians
        if terminated:
            self.steps_beyond_terminated = 0
        if self.render_mode == "human":
            self.render()
        return np.array(self.state, np.float32), 1.0, terminated, False, {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode, and return its first observation, (4,) float32, and an empty info.

        Args:
            seed: seed of the starting state; None keeps the random generator.
            options: `low` and `high`, bounds of the starting state's numbers; -0.05 and 0.05 by default.
        """
        observation, info = super().reset(seed=seed, options=options)
        self.state = tuple(self.state.tolist())
        return observation, info


gymnasium.register(ID, entry_point=f"{__name__}:ContinuousCartPoleEnv", max_episode_steps=MAX_EPISODE_STEPS)
