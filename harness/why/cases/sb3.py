"""DQN of Stable-Baselines3 on CartPole."""

import gymnasium as gym
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import FlattenExtractor

ENVS, BATCH, TRAIN_EVERY, GRADIENT_STEPS, EVALUATE_EVERY, WIDTH = 4, 128, 1, 1, 1000, 128
torch.set_num_threads(1)


class Scaled(gym.ObservationWrapper):
    def observation(self, observation):
        return observation * 0.5


class Storage(ReplayBuffer):
    pass


class Features(FlattenExtractor):
    pass


class Progress(BaseCallback):
    def _on_step(self):
        if self.num_timesteps % 200 == 0:
            print("step", self.num_timesteps, flush=True)
        return True


def make_env():
    return Scaled(gym.make("CartPole-v1"))


def main():
    model = DQN(
        "MlpPolicy",
        make_vec_env(make_env, n_envs=ENVS),
        batch_size=BATCH,
        train_freq=TRAIN_EVERY,
        gradient_steps=GRADIENT_STEPS,
        learning_starts=400,
        buffer_size=20000,
        replay_buffer_class=Storage,
        policy_kwargs={"net_arch": [WIDTH, WIDTH], "features_extractor_class": Features},
        device="cpu",
    )
    evaluation = EvalCallback(make_vec_env(make_env), n_eval_episodes=5, eval_freq=EVALUATE_EVERY, verbose=0)
    model.learn(10**9, callback=CallbackList([Progress(), evaluation]))


if __name__ == "__main__":
    main()
