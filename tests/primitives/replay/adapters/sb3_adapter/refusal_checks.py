"""Checks of what is refused in Stable-Baselines3's environment: algorithms that ignore weights, other buffers."""

import io

from models import ALGORITHMS, model, own_class
from refusals import raises
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from placerl.primitives.replay.adapters.sb3_adapter import (
    PrioritizedDQN,
    PrioritizedReplayBuffer,
    PrioritizedSAC,
)


def check_sb3s_own_algorithms_refuse_the_buffer_by_name():
    for algorithm, (kind, _) in ALGORITHMS.items():
        name = f"Prioritized{kind.__name__}"
        with raises(TypeError, "replay_buffer_class", name):
            model(kind, algorithm, replay_buffer_class=PrioritizedReplayBuffer)
        with raises(TypeError, name):  # a subclass of either
            model(
                type("Mine", (kind,), {}),
                algorithm,
                replay_buffer_class=type("Buffer", (PrioritizedReplayBuffer,), {}),
            )
        given = model(kind, algorithm)
        given.replay_buffer = PrioritizedReplayBuffer(200, given.observation_space, given.action_space, "cpu")
        with raises(TypeError, name):
            given.learn(40)
        loaded, stream = model(kind, algorithm), io.BytesIO()
        given.save_replay_buffer(stream)
        stream.seek(0)
        loaded.load_replay_buffer(stream)
        with raises(TypeError, name):
            loaded.learn(40)


def check_a_wrapped_sample_is_refused_too():
    class Wrapped(PrioritizedReplayBuffer):
        def sample(self, batch_size, env=None):
            return super().sample(batch_size, env)

    given = model(SAC, "sac")
    given.replay_buffer = Wrapped(200, given.observation_space, given.action_space, "cpu")
    with raises(TypeError, "PrioritizedSAC"):
        given.learn(40)


def check_an_algorithm_of_a_users_own_says_that_it_applies_weights():
    with raises(TypeError, "applies_weights"):
        model(type("Own", (SAC,), {}), "sac", replay_buffer_class=PrioritizedReplayBuffer)
    model(own_class(SAC), "sac", replay_buffer_class=PrioritizedReplayBuffer).learn(40)


class SamplesByHand(BaseCallback):
    """Draws from a buffer of the user's while a model trains."""

    def __init__(self, buffer=None):
        super().__init__()
        self.buffer, self.drawn = buffer, 0

    def _on_step(self):
        buffer = self.buffer or self.model.replay_buffer
        if buffer.size():
            self.drawn += len(buffer.sample(4).rewards)
        return True


def check_by_hand_any_number_of_samples_may_be_drawn():
    trained = model(PrioritizedSAC, "sac")
    own = SamplesByHand()
    trained.learn(40, callback=own)
    assert own.drawn > 100
    for _ in range(5):
        trained.replay_buffer.sample(8)
    # also in a training of SB3's own class, whose buffer is another one
    other = SamplesByHand(trained.replay_buffer)
    model(SAC, "sac").learn(40, callback=other)
    assert other.drawn > 100

    class Creates(BaseCallback):
        def _on_step(self):
            PrioritizedReplayBuffer(4, self.model.observation_space, self.model.action_space, "cpu")
            return True

    model(SAC, "sac").learn(5, callback=Creates())


def check_other_buffers_and_conflicting_options_are_refused_by_name():
    for algorithm, (_, kind) in ALGORITHMS.items():
        for buffer in (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer, HerReplayBuffer):
            with raises(TypeError, "replay_buffer_class", buffer.__name__, "PrioritizedReplayBuffer"):
                model(kind, algorithm, replay_buffer_class=buffer)
        with raises(ValueError, "optimize_memory_usage"):
            model(kind, algorithm, optimize_memory_usage=True)
        for name, value in (("n_steps", 5), ("gamma", 0.5)):
            with raises(ValueError, f"replay_buffer_kwargs['{name}']"):
                model(kind, algorithm, replay_buffer_kwargs={name: value})
        with raises(ValueError, "n_steps"):
            model(kind, algorithm, n_steps=0)
        with raises(TypeError, "n_steps: found 2.5"):
            model(kind, algorithm, n_steps=2.5)
        with raises(TypeError, "wrong"):
            model(kind, algorithm, replay_buffer_kwargs={"wrong": 1})
    given = {"alpha": 0.3}
    model(PrioritizedDQN, "dqn", replay_buffer_kwargs=given, n_steps=3)
    assert given == {"alpha": 0.3}
