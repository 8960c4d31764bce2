"""Trains with PufferLib's trainer, as a worker that answers jobs in JSON (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 256, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/pufferlib/.venv/bin/python -P \\
        baselines/pufferlib/worker.py

The worker trains PPO with the workload's networks and hyper-parameters. The cart-pole is PufferLib's own, in C, which
steps all environments in one call (`install.py` sets its constants to those of CartPole-v1). Other environments are
Gymnasium's, in PufferLib's serial vector. These settings favour PufferLib: no dashboard, no checkpoints, episodes
logged once per iteration, and the CPU as device. The result's `notes` say where PufferLib departs from the workload.
"""

from typing import Any

import gymnasium
import numpy as np
import pufferlib.emulation
import pufferlib.vector
import torch
from agent import RETURNS, Agent, KeptReturns, hidden_layers, make_environment
from job_loop import UnsupportedError, serve
from pufferlib import pufferl
from pufferlib.ocean.cartpole.cartpole import Cartpole
from torch import Tensor, nn
from torch.distributions import Normal

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
NO_END = 10**12
NO_CHANGE = 1e9  # a limit that is never reached


class Policy(nn.Module):
    """The workload's policy and value networks, in one module, as PufferLib's trainer requires."""

    def __init__(self, workload: dict[str, Any]) -> None:
        super().__init__()
        environment = workload["environment"]
        (observations,), actions = environment["observation_shape"], environment["action_size"]
        self.policy = self._network(workload, observations, actions)
        self.value = self._network(workload, observations, 1)
        self.continuous = environment["action_kind"] == "continuous"
        initial = torch.full((1, actions), workload["algorithm"]["initial_log_std"])
        self.log_std = nn.Parameter(initial, requires_grad=self.continuous)

    @staticmethod
    def _network(workload: dict[str, Any], inputs: int, outputs: int) -> nn.Sequential:
        hidden, activation = hidden_layers(workload, ACTIVATIONS, "PufferLib")
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(inputs, size), activation()]
            inputs = size
        return nn.Sequential(*layers, nn.Linear(inputs, outputs))

    def forward(self, observations: Tensor, state: Any = None) -> tuple[Any, Tensor]:
        """Return the policy's output and the (N, 1) values for (N, O) observations.

        The policy's output is a normal distribution for continuous actions, and (N, A) logits for discrete ones.
        """
        observations = observations.float()
        chosen = self.policy(observations)
        if self.continuous:
            chosen = Normal(chosen, self.log_std.exp().expand_as(chosen), validate_args=False)
        return chosen, self.value(observations)

    forward_eval = forward


class QuietTrainer(pufferl.PuffeRL):
    """PufferLib's trainer, but without a dashboard on the terminal and without checkpoints."""

    def print_dashboard(self, *_: object, **__: object) -> None:
        """Print nothing, instead of the dashboard."""

    def save_checkpoint(self) -> None:
        """Save nothing, instead of a checkpoint."""


class NativeCartPole(Cartpole):
    """PufferLib's cart-pole in C, which also appends the returns of ended episodes to `RETURNS`.

    The C code logs only the number and the mean length of the episodes that ended. As each step's reward is 1, the
    length of an episode is its return.
    """

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        answer = super().step(actions)
        for log in answer[-1]:
            if ended := round(log.get("n", 0)):
                RETURNS.extend([float(log["episode_length"])] * ended)
        return answer


class Training(Agent):
    """Trains one PPO agent with PufferLib.

    A round is one iteration of PPO: T steps of each of N environments, then K epochs of minibatches of M samples.

    Raises:
        UnsupportedError: PufferLib has no such algorithm, network or environment.
    """

    packages = ("pufferlib",)
    on_policy = True

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        workload = job["workload"]
        if workload["algorithm"]["name"] != "ppo":
            raise UnsupportedError(f"algorithm {workload['algorithm']['name']}: PufferLib has PPO alone")
        torch.set_num_threads(job["threads"])
        torch.manual_seed(job["seed"])
        self.policy = Policy(workload)
        self.trainer = QuietTrainer(self._settings(job), self._environments(job), self.policy)
        self.trainer.utilization.stop()
        self.notes["optimizer"] = "one Adam for both networks, with the policy's learning rate"
        self.notes["advantages"] = (
            "PufferLib's own, with V-trace's clipping at 1; segments drawn with replacement"
        )
        self.notes["rewards"] = "clipped to [-1, 1]"
        self.notes["truncation"] = "a cut-off episode's last state has no value"
        if workload["algorithm"]["target_kl"] is not None:
            self.notes["early_stop"] = "none: PufferLib has no limit on the KL divergence"
        self.warm_up()

    def _environments(self, job: dict[str, Any]) -> Any:
        environment, actors = job["workload"]["environment"], job["workload"]["training"]["actors"]
        if environment["id"] == "CartPole-v1":
            self.notes["environment"] = "PufferLib's cart-pole in C, in float32"
            every = job["workload"]["algorithm"]["trajectory_length"]  # steps from log to log
            return NativeCartPole(num_envs=actors, report_interval=every, seed=job["seed"])

        def create(buf: Any = None, seed: int = 0) -> pufferlib.emulation.GymnasiumPufferEnv:
            env = KeptReturns(make_environment(environment))
            if isinstance(env.action_space, gymnasium.spaces.Box):
                env = gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)
            return pufferlib.emulation.GymnasiumPufferEnv(env=env, buf=buf, seed=seed)

        return pufferlib.vector.make(
            create, num_envs=actors, backend=pufferlib.vector.Serial, seed=job["seed"]
        )

    def _settings(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the trainer's settings."""
        workload = job["workload"]
        algorithm, actors = workload["algorithm"], workload["training"]["actors"]
        horizon = algorithm["trajectory_length"]
        if job["batch_size"] % horizon:
            raise UnsupportedError(
                f"batch size {job['batch_size']}: PufferLib takes multiples of the trajectory length, {horizon}"
            )
        self.round_environment_steps = actors * horizon
        self.round_gradient_steps = algorithm["epochs"] * self.round_environment_steps // job["batch_size"]
        norm = algorithm["maximum_gradient_norm"]
        return {
            "seed": job["seed"],
            "torch_deterministic": False,
            "cpu_offload": False,
            "device": "cpu",
            "use_rnn": False,
            "optimizer": "adam",
            "anneal_lr": False,
            "precision": "float32",
            "total_timesteps": NO_END,
            "learning_rate": algorithm["policy_learning_rate"],
            "gamma": algorithm["gamma"],
            "gae_lambda": algorithm["gae_lambda"],
            "update_epochs": algorithm["epochs"],
            "clip_coef": algorithm["clip"],
            "vf_coef": 2 * algorithm["value_coefficient"],  # its loss is half the squared error
            "vf_clip_coef": NO_CHANGE,
            "max_grad_norm": NO_CHANGE if norm is None else norm,
            "ent_coef": algorithm["entropy_coefficient"],
            "adam_beta1": 0.9,
            "adam_beta2": 0.999,
            "adam_eps": 1e-8,
            "checkpoint_interval": NO_END,
            "batch_size": self.round_environment_steps,
            "minibatch_size": job["batch_size"],
            "max_minibatch_size": job["batch_size"],
            "bptt_horizon": horizon,
            "compile": False,
            "vtrace_rho_clip": 1.0,
            "vtrace_c_clip": 1.0,
            "prio_alpha": 0.0,  # uniform, as the workload's
            "prio_beta0": 1.0,
        }

    @torch.no_grad()
    def greedy(self, observation: np.ndarray) -> np.ndarray:
        """Return the most likely action for one observation."""
        chosen, _ = self.policy(torch.from_numpy(observation[None]))
        return (chosen.mean if self.policy.continuous else chosen.argmax(1))[0].numpy()

    def iterate(self) -> None:
        """Train for one iteration: collect samples, then take gradient steps on them."""
        RETURNS.clear()
        self.trainer.evaluate()
        self.trainer.train()
        self.episode_returns += RETURNS
        self.environment_steps += self.round_environment_steps
        self.gradient_steps += self.round_gradient_steps


if __name__ == "__main__":
    serve(Training)
