"""DQN on CartPole in one file."""

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import nn

ENVS, BATCH, TRAIN_EVERY, EVALUATE_EVERY, WIDTH = 4, 128, 1, 4000, 128
DTYPE = torch.float32
torch.set_num_threads(1)
device = torch.device("cpu")


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)
        )

    def forward(self, x):
        return self.layers(x)


class Scaled(gym.ObservationWrapper):
    def observation(self, observation):
        return observation * 0.5


class ReplayBuffer:
    def __init__(self, capacity):
        self.states = np.zeros((capacity, 4), np.float32)
        self.next_states = np.zeros((capacity, 4), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.ends = np.zeros(capacity, np.float32)
        self.position, self.size, self.capacity = 0, 0, capacity

    def add(self, states, actions, rewards, next_states, ends):
        rows = (self.position + np.arange(len(states))) % self.capacity
        self.states[rows], self.actions[rows], self.rewards[rows] = states, actions, rewards
        self.next_states[rows], self.ends[rows] = next_states, ends
        self.position = (self.position + len(states)) % self.capacity
        self.size = min(self.size + len(states), self.capacity)

    def sample(self, count):
        rows = np.random.randint(0, self.size, count)
        states = torch.from_numpy(self.states[rows]).to(device, DTYPE)
        actions = torch.from_numpy(self.actions[rows]).to(device)
        rewards = torch.from_numpy(self.rewards[rows]).to(device, DTYPE)
        next_states = torch.from_numpy(self.next_states[rows]).to(device, DTYPE)
        ends = torch.from_numpy(self.ends[rows]).to(device, DTYPE)
        return states, actions, rewards, next_states, ends


def make_env():
    return Scaled(gym.make("CartPole-v1"))


def evaluate(network, episodes=2):
    env, total = make_env(), 0.0
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        for _ in range(100):
            with torch.no_grad():
                action = network(torch.as_tensor(state, dtype=DTYPE, device=device)).argmax().item()
            state, reward, end, cut, _ = env.step(action)
            total += reward
            if end or cut:
                state, _ = env.reset()
    return total / episodes


def main():
    envs = gym.vector.SyncVectorEnv([make_env for _ in range(ENVS)])
    network = QNetwork().to(device, DTYPE)
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    buffer = ReplayBuffer(20000)
    states, _ = envs.reset(seed=0)
    step = 0
    while True:
        with torch.no_grad():
            actions = network(torch.as_tensor(states, dtype=DTYPE, device=device)).argmax(1).cpu().numpy()
        if np.random.rand() < 0.1:
            actions = np.random.randint(0, 2, ENVS)
        next_states, rewards, ends, _, _ = envs.step(actions)
        buffer.add(states, actions, rewards, next_states, ends)
        states = next_states
        step += ENVS
        if step % 200 == 0:
            print("step", step, flush=True)
        if step < 400 or step % TRAIN_EVERY:
            continue
        for _ in range(max(1, ENVS // 4)):
            s, a, r, s2, d = buffer.sample(BATCH)
            with torch.no_grad():
                goal = r + 0.99 * target(s2).max(1).values * (1 - d)
            loss = nn.functional.mse_loss(network(s).gather(1, a[:, None])[:, 0], goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 2000 == 0:
            target.load_state_dict(network.state_dict())
        if step % EVALUATE_EVERY == 0:
            evaluate(network)


if __name__ == "__main__":
    main()
