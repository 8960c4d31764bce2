"""AtariFrames-v0: an Atari game whose observations are stacks of four 84x84 frames (Mnih et al. 2015, Methods).

Importing this module registers the environment; creating it needs ale-py, which includes the games. Another
virtual environment can use it with this folder on `PYTHONPATH`:

    >>> import gymnasium
    >>> gymnasium.make("atari_frames:AtariFrames-v0", game="pong").action_space
    Discrete(6)
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

ID = "AtariFrames-v0"


class AtariFramesEnv(gymnasium.Env[np.ndarray, Any]):
    """One Atari game, preprocessed in C++ by ale-py's vector environment with a single game.

    Every action is repeated for 4 frames. The last two are combined by their maximum, because some sprites flicker,
    turned grey and scaled to 84x84. Actions are never replaced by the previous one (sticky actions are off).

    ## Action space

    `Discrete(n)`: the game's minimal set; 6 in Pong (MAP Table III).

    ## Observation space

    `Box(0, 255, (4, 84, 84), uint8)`: the last four frames, the newest last, grey level.

    ## Reward

    The sign of the change in score: -1, 0 or +1, as Mnih et al. trained; in Pong that is the score itself.

    ## Starting state

    The game's own, after 0 to 30 idle frames and, in games that need it, the fire button.

    ## End of an episode

    1. Termination: the game is over (21 points of either side in Pong).
    2. Truncation: 108 000 frames (30 minutes of play at 60 frames per second).

    ## Version history

    * v0: first version.
    """

    # Gymnasium's annotation is a mutable dict; nothing can be rendered here.
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, game: str = "pong") -> None:
        """Load the game.

        Args:
            game: its name in ale-py: "pong".

        Raises:
            ImportError: ale-py is not installed.
        """
        from ale_py.vector_env import AtariVectorEnv

        self._games: Any = AtariVectorEnv(game, num_envs=1, num_threads=1)
        actions: Any = self._games.single_action_space
        self.observation_space = Box(0, 255, self._games.single_observation_space.shape, np.uint8)
        self.action_space = Discrete(int(actions.n))

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Repeat `action` for 4 frames.

        Returns:
            Observation (4, 84, 84) uint8, reward, terminated, truncated, info.
        """
        observation, reward, terminated, truncated, _ = self._games.step(np.array([action], np.int64))
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game, and return its first observation, (4, 84, 84) uint8, and info.

        Args:
            seed: determines the number of idle frames in this and later games; None sets no new seed.
        """
        super().reset(seed=seed)
        # ale-py takes seeds of 31 bits, Gymnasium takes any.
        observation, _ = self._games.reset(seed=None if seed is None else seed % 2**31)
        return observation[0], {}

    def close(self) -> None:
        """Unload the game."""
        self._games.close()


gymnasium.register(ID, entry_point=f"{__name__}:AtariFramesEnv")
