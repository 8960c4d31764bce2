"""Trains with SBX, Stable-Baselines3's algorithms in JAX, as a worker (`harness/compare/protocol.py`).

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=harness/environments:baselines baselines/sbx/.venv/bin/python -P baselines/sbx/worker.py

The worker trains DQN, DDPG, TD3, SAC or PPO in SB3's own loop (`sb3/worker.py`), with SBX's compiled gradient steps
and inference. These settings favour SBX, in addition to those of SB3: XLA uses no pool of threads, and a call runs in
the calling thread, which for networks this small takes less time than a hand-over to another thread. The steps are
compiled before anything is timed. The result's `notes` say how long that took, and where SBX departs from the
workload.
"""

import os

# Read when JAX is loaded; other numbers of threads are refused.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

from typing import Any

import jax
import numpy as np
import sbx
from flax import linen
from job_loop import UnsupportedError, serve
from sb3 import worker
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

jax.config.update("jax_cpu_enable_async_dispatch", False)

ACTIVATIONS = {"relu": linen.relu, "tanh": linen.tanh}
COMPILED = "/jax/core/compile/backend_compile_duration"
_compile_s: list[float] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: _compile_s.append(duration) if event == COMPILED else None
)


class OwnRatesPPO(worker.OwnRates, sbx.PPO):
    """PPO with a separate learning rate for each network."""

    def _update_learning_rate(self, optimizers: object, learning_rate: float = 0.0) -> None:
        pass


class Training(worker.Training):
    """Trains one model of SBX in SB3's loop.

    Raises:
        UnsupportedError: SBX has no such algorithm or network, or the job asks for a number of threads other than 1.
    """

    packages = ("sbx-rl", "stable-baselines3", "jax", "flax")
    devices = ("cpu",)
    learns_alone = False
    anneals = False

    def __init__(self, job: dict[str, Any]) -> None:
        if job["threads"] != 1:
            raise UnsupportedError(f"threads {job['threads']}: XLA is set for one before it is loaded")
        super().__init__(job)
        if "replay" in self.notes:
            self.notes["replay"] = "uniform: SBX has no prioritised replay"

    def advance(self, gradient_steps: int) -> dict[str, Any]:
        """Continue training for at least `gradient_steps` gradient steps, and return the fields of a job's result.

        They are those of `Agent.advance`, and a note of how long XLA compiled.
        """
        before = sum(_compile_s)
        self.notes.setdefault("compiled", f"by XLA, in {before:.1f} s before anything is timed")
        result = super().advance(gradient_steps)
        if (late := sum(_compile_s) - before) > 0:  # as when an episode is first cut off at its limit
            self.notes["compiled late"] = f"{late:.2f} s within a timed job"
        return result

    @staticmethod
    def _network(workload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        network = workload["network"]
        if network["kind"] != "mlp" or network["activation"] not in ACTIVATIONS:
            raise UnsupportedError(
                f"network {network['kind']} with {network['activation']} is not mapped to SBX"
            )
        activation = ACTIVATIONS[network["activation"]]
        return "MlpPolicy", {"net_arch": list(network["hidden"]), "activation_fn": activation}

    def _dqn(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> BaseAlgorithm:
        if algorithm["double"]:
            self.notes["double"] = "plain targets: SBX has no double DQN"
        if algorithm["loss"] != "huber":
            self.notes["loss"] = "Huber's: SBX has no other"
        if algorithm.get("maximum_gradient_norm") is not None:
            self.notes["gradient norm"] = "not clipped: SBX's DQN has no limit"
        # SB3 and SBX count environment steps where the workload counts gradient steps.
        interval = self._steps_for(algorithm["target_interval"])
        model = self._create(
            sbx.DQN,
            env=environments,
            learning_rate=algorithm["learning_rate"],
            target_update_interval=interval,
            **common,
        )
        first, last = algorithm["epsilon_initial"], algorithm["epsilon_final"]
        steps = algorithm["exploration_steps"]
        model.exploration_schedule = lambda _: first + (last - first) * min(1.0, model.num_timesteps / steps)
        return model

    def _rates(self, algorithm: dict[str, Any]) -> dict[str, Any]:
        return {
            "learning_rate": algorithm["actor_learning_rate"],
            "qf_learning_rate": algorithm["critic_learning_rate"],
        }

    def _ddpg(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> BaseAlgorithm:
        noise = self._noise(algorithm, environments)
        return self._create(
            sbx.DDPG, env=environments, action_noise=noise, **self._rates(algorithm), **common
        )

    def _td3(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> BaseAlgorithm:
        return self._create(
            sbx.TD3,
            env=environments,
            action_noise=self._noise(algorithm, environments),
            policy_delay=algorithm["policy_delay"],
            target_policy_noise=algorithm["target_noise"],
            target_noise_clip=algorithm["target_noise_clip"],
            **self._rates(algorithm),
            **common,
        )

    def _sac(self, algorithm: dict[str, Any], environments: DummyVecEnv, **common: Any) -> BaseAlgorithm:
        temperature, entropy = algorithm["initial_temperature"], algorithm["target_entropy"]
        if algorithm["temperature_learning_rate"] != algorithm["actor_learning_rate"]:
            self.notes["temperature"] = "learns at the actor's rate"
        return self._create(
            sbx.SAC,
            env=environments,
            ent_coef=f"auto_{temperature}" if algorithm["tune_temperature"] else temperature,
            target_entropy="auto" if entropy is None else entropy,
            **self._rates(algorithm),
            **common,
        )

    def _ppo(self, job: dict[str, Any], environments: DummyVecEnv) -> BaseAlgorithm:
        workload = job["workload"]
        algorithm = workload["algorithm"]
        policy, policy_kwargs = self._network(workload)
        if algorithm["target_kl"] is not None:
            self.notes["early_stop"] = "none: SBX adapts its learning rate to a KL divergence instead"
        norm = algorithm["maximum_gradient_norm"]
        model = self._create(
            OwnRatesPPO,
            policy=policy,
            env=environments,
            learning_rate=algorithm["policy_learning_rate"],
            n_steps=algorithm["trajectory_length"],
            batch_size=job["batch_size"],
            n_epochs=algorithm["epochs"],
            gamma=algorithm["gamma"],
            gae_lambda=algorithm["gae_lambda"],
            clip_range=algorithm["clip"],
            normalize_advantage=algorithm["normalize_advantages"],
            ent_coef=algorithm["entropy_coefficient"],
            vf_coef=algorithm["value_coefficient"],
            max_grad_norm=1e9 if norm is None else norm,
            policy_kwargs=policy_kwargs | {"log_std_init": algorithm["initial_log_std"]},
            seed=job["seed"],
            device="cpu",
        )
        value_rate = model.policy.vf_state.opt_state[1].hyperparams
        value_rate["learning_rate"] = np.float32(algorithm["value_learning_rate"])
        return model

    def _count(self) -> None:
        """Copy the model's own counts; it counts the gradient steps of PPO in epochs, and none is skipped."""
        self.environment_steps = self.model.num_timesteps
        self.gradient_steps = self.model._n_updates
        if self.on_policy:
            self.gradient_steps *= self.round_gradient_steps // self.model.n_epochs


if __name__ == "__main__":
    serve(Training)
