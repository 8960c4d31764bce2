"""Prioritised replay for Stable-Baselines3 2.9.2, which has none.

    from placerl.primitives.replay.adapters.sb3_adapter import PrioritizedDQN
    model = PrioritizedDQN("MlpPolicy", "CartPole-v1", replay_buffer_kwargs={"alpha": 0.6, "beta": 0.4})
    model.learn(50_000)

`PrioritizedDQN`, `PrioritizedDDPG`, `PrioritizedTD3` and `PrioritizedSAC` take every argument of SB3's own classes
except `optimize_memory_usage=True` and other replay buffers, which they refuse. n-step returns (`n_steps=3`), also of
dictionary observations (`"MultiInputPolicy"`), images, `VecNormalize`, several environments, `save`, `load`,
`save_replay_buffer` and `load_replay_buffer` work as in SB3.

With `replay_buffer_class=DevicePrioritizedReplayBuffer` items and priorities are in the memory of the model's device:

    model = PrioritizedSAC("MlpPolicy", env, device="cuda", replay_buffer_class=DevicePrioritizedReplayBuffer)

`PrioritizedReplayBuffer` trains nothing by itself: SB3's own losses take no weights. It raises if an algorithm uses it
that does not apply them; an algorithm of your own says that it does with `applies_weights = True`.
"""

from placerl.primitives.replay.adapters.sb3_adapter.algorithms import (
    PrioritizedDDPG,
    PrioritizedDQN,
    PrioritizedSAC,
    PrioritizedTD3,
)
from placerl.primitives.replay.adapters.sb3_adapter.buffer import PrioritizedReplayBuffer
from placerl.primitives.replay.adapters.sb3_adapter.device_buffer import DevicePrioritizedReplayBuffer

__all__ = [
    "DevicePrioritizedReplayBuffer",
    "PrioritizedDDPG",
    "PrioritizedDQN",
    "PrioritizedReplayBuffer",
    "PrioritizedSAC",
    "PrioritizedTD3",
]
