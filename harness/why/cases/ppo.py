"""PPO on CartPole in one file."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn

ENVS, STEPS, BATCH, EPOCHS, EVALUATE_EVERY, WIDTH = 8, 64, 128, 4, 16, 128
DTYPE = torch.float32
torch.set_num_threads(1)
device = torch.device("cpu")


def layers(out):
    return nn.Sequential(
        nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, out)
    )


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = layers(2), layers(1)

    def get_action_and_value(self, x, action=None):
        logits = torch.log_softmax(self.actor(x), 1)
        if action is None:
            action = torch.multinomial(logits.exp(), 1)[:, 0]
        chosen = logits.gather(1, action[:, None])[:, 0]
        return action, chosen, -(logits.exp() * logits).sum(1), self.critic(x)[:, 0]


class Scaled(gym.ObservationWrapper):
    def observation(self, observation):
        return observation * 0.5


def make_env():
    return Scaled(gym.make("CartPole-v1"))


def evaluate(agent, episodes=2):
    env, total = make_env(), 0.0
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        for _ in range(100):
            with torch.no_grad():
                x = torch.as_tensor(state, dtype=DTYPE, device=device)
                action = agent.actor(x).argmax().item()
            state, reward, end, cut, _ = env.step(action)
            total += reward
            if end or cut:
                state, _ = env.reset()
    return total / episodes


def main():
    envs = gym.vector.SyncVectorEnv([make_env for _ in range(ENVS)])
    agent = Agent().to(device, DTYPE)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    obs = torch.zeros(STEPS, ENVS, 4, dtype=DTYPE)
    actions = torch.zeros(STEPS, ENVS, dtype=torch.int64)
    logprobs, rewards, dones, values = (torch.zeros(STEPS, ENVS, dtype=DTYPE) for _ in range(4))
    next_obs, _ = envs.reset(seed=0)
    iteration = 0
    while True:
        for step in range(STEPS):
            obs[step] = torch.as_tensor(next_obs, dtype=DTYPE, device=device)
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(obs[step])
            actions[step], logprobs[step], values[step] = action, logprob, value
            next_obs, reward, end, _, _ = envs.step(action.cpu().numpy())
            rewards[step], dones[step] = torch.as_tensor(reward), torch.as_tensor(end)
        advantages = torch.zeros_like(rewards)
        last = torch.zeros(ENVS)
        for t in reversed(range(STEPS - 1)):
            delta = rewards[t] + 0.99 * values[t + 1] * (1 - dones[t]) - values[t]
            advantages[t] = last = delta + 0.95 * 0.99 * (1 - dones[t]) * last
        b_obs, b_actions, b_logprobs = obs.reshape(-1, 4), actions.reshape(-1), logprobs.reshape(-1)
        b_advantages, b_returns = advantages.reshape(-1), (advantages + values).reshape(-1)
        for _ in range(EPOCHS):
            order = np.random.permutation(STEPS * ENVS)
            for start in range(0, STEPS * ENVS, BATCH):
                rows = torch.from_numpy(order[start : start + BATCH])
                x, a, old = b_obs[rows], b_actions[rows], b_logprobs[rows]
                gain, goal = b_advantages[rows], b_returns[rows]
                _, logprob, entropy, value = agent.get_action_and_value(x, a)
                ratio = (logprob - old).exp()
                policy_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                loss = policy_loss - 0.01 * entropy.mean() + 0.5 * ((value - goal) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        iteration += 1
        print("step", iteration * STEPS * ENVS, flush=True)
        if iteration % EVALUATE_EVERY == 0:
            evaluate(agent)


if __name__ == "__main__":
    main()
