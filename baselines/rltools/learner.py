"""Times gradient steps of RLtools (C++, OpenBLAS), for `baselines/learner_worker.py`.

`rltools.TD3` and similar classes only offer a loop of environment steps and training. `gradient_step.cpp` times the
training alone, on batches gathered beforehand. It is compiled for a network and batch size at their first use, with
RLtools' own compiler call and flags.
"""

import contextlib
import math
import os
import sys
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
# Read when the package is imported: compiled modules are stored in this environment.
os.environ["TMPDIR"] = str(Path(sys.prefix) / "cache")
Path(os.environ["TMPDIR"]).mkdir(exist_ok=True)

import scipy_openblas32  # noqa: E402
from rltools.src import compile as compiler  # noqa: E402
from rltools.src.load_module import load_module  # noqa: E402
from rltools.src.render import render  # noqa: E402

VERSION = f"rltools {version('rltools')} with OpenBLAS {version('scipy-openblas32')}"
PACKAGE = Path(compiler.absolute_path).parent
NOTE = "time of training alone: batches are gathered, and observations made, outside the clock"
SAMPLES = 20_000  # environment steps in the replay


def _common(workload, batch_size):
    network = workload["network"]
    hidden = network["hidden"]
    if network["kind"] != "mlp" or len(set(hidden)) != 1:
        raise ValueError(f"network {network}: RLtools' loops have hidden layers of one size")
    layers, activation = len(hidden) + 1, network["activation"].upper()
    settings = {"STEP_LIMIT": 2 * SAMPLES, "GAMMA": workload["algorithm"]["gamma"]}
    for part in ("ACTOR", "CRITIC"):
        settings |= {
            f"{part}_HIDDEN_DIM": hidden[0],
            f"{part}_NUM_LAYERS": layers,
            f"{part}_ACTIVATION_FUNCTION": activation,
        }
    settings |= {"OPTIMIZER_BETA_1": 0.9, "OPTIMIZER_BETA_2": 0.999, "OPTIMIZER_EPSILON": 1e-8}
    return settings | {"OPTIMIZER_EPSILON_SQRT": 0.0, "IGNORE_TERMINATION": "false"}


def _off_policy(workload, batch_size):
    algorithm = workload["algorithm"]
    warm_up = 10 * SAMPLES  # the loop itself never trains: training is called and timed from outside
    return _common(workload, batch_size) | {
        "ACTOR_BATCH_SIZE": batch_size,
        "CRITIC_BATCH_SIZE": batch_size,
        "CRITIC_TRAINING_INTERVAL": 1,
        "ACTOR_POLYAK": 1 - algorithm["tau"],
        "CRITIC_POLYAK": 1 - algorithm["tau"],
        "OPTIMIZER_ALPHA": algorithm["critic_learning_rate"],
        "N_ENVIRONMENTS": 1,
        "N_WARMUP_STEPS": warm_up,
        "N_WARMUP_STEPS_ACTOR": warm_up,
        "N_WARMUP_STEPS_CRITIC": warm_up,
        "REPLAY_BUFFER_CAP": SAMPLES,
        "COLLECT_EPISODE_STATS": "false",
        "EPISODE_STATS_BUFFER_SIZE": 1,
        "SHARED_BATCH": "true",
    }


def _td3(workload, batch_size):
    algorithm = workload["algorithm"]
    delay = algorithm["policy_delay"]
    return _off_policy(workload, batch_size) | {
        "ACTOR_TRAINING_INTERVAL": delay,
        "ACTOR_TARGET_UPDATE_INTERVAL": delay,
        "CRITIC_TARGET_UPDATE_INTERVAL": delay,
        "TARGET_NEXT_ACTION_NOISE_STD": algorithm["target_noise"],
        "TARGET_NEXT_ACTION_NOISE_CLIP": algorithm["target_noise_clip"],
        "EXPLORATION_NOISE": 0.1,
    }


def _sac(workload, batch_size):
    algorithm = workload["algorithm"]
    entropy = algorithm["target_entropy"]
    return _off_policy(workload, batch_size) | {
        "ACTOR_TRAINING_INTERVAL": 1,
        "CRITIC_TARGET_UPDATE_INTERVAL": 1,
        "TARGET_ENTROPY": -float(workload["environment"]["action_size"]) if entropy is None else entropy,
        "ALPHA": algorithm["initial_temperature"],
        "ADAPTIVE_ALPHA": "true" if algorithm["tune_temperature"] else "false",
        "LOG_STD_LOWER_BOUND": -20,
        "LOG_STD_UPPER_BOUND": 2,
        "LOG_PROBABILITY_EPSILON": 1e-6,
    }


def _ppo(workload, batch_size):
    algorithm, training = workload["algorithm"], workload["training"]
    return _common(workload, batch_size) | {
        "LAMBDA": algorithm["gae_lambda"],
        "EPSILON_CLIP": algorithm["clip"],
        "INITIAL_ACTION_STD": math.exp(algorithm["initial_log_std"]),
        "LEARN_ACTION_STD": "true",
        "ACTION_ENTROPY_COEFFICIENT": algorithm["entropy_coefficient"],
        "ADVANTAGE_EPSILON": 1e-8,
        "NORMALIZE_ADVANTAGE": "true" if algorithm["normalize_advantages"] else "false",
        "ADAPTIVE_LEARNING_RATE": "false",
        "ADAPTIVE_LEARNING_RATE_POLICY_KL_THRESHOLD": 0.008,
        "POLICY_KL_EPSILON": 1e-5,
        "ADAPTIVE_LEARNING_RATE_DECAY": 1 / 1.5,
        "ADAPTIVE_LEARNING_RATE_MIN": 1e-6,
        "ADAPTIVE_LEARNING_RATE_MAX": 1e-2,
        "NORMALIZE_OBSERVATIONS": "false",
        "N_WARMUP_STEPS_CRITIC": 0,
        "N_WARMUP_STEPS_ACTOR": 0,
        "N_EPOCHS": algorithm["epochs"],
        "N_ENVIRONMENTS": training["actors"],
        "ON_POLICY_RUNNER_STEPS_PER_ENV": algorithm["trajectory_length"],
        "EPISODE_STEP_LIMIT": 1000,
        "BATCH_SIZE": batch_size,
        "TOTAL_STEP_LIMIT": 10**9,
        "OPTIMIZER_ALPHA": algorithm["policy_learning_rate"],
    }


SETTINGS = {"td3": _td3, "sac": _sac, "ppo": _ppo}


def compiled(source, module, name, settings, flags):
    """Compile a C++ source with an algorithm's settings, unless that has been done before, and import the result.

    Args:
        module: name of the Python module; it must differ if settings or flags do.
        name: "td3", "sac" or "ppo".
        settings: values of the constants in RLtools' template for the algorithm.
        flags: further arguments of the compiler.
    """
    rendered = Path(os.environ["TMPDIR"]) / module
    rendered.mkdir(exist_ok=True)
    template = PACKAGE / "interface" / "algorithms" / name / "template.h"
    changed = render(str(template), str(rendered / "loop_core_config.h"), **settings)
    library = scipy_openblas32.get_lib_dir()
    common = [
        f"-I{rendered}",
        f"-DRL_TOOLS_MODULE_NAME={module}",
        "-DRL_TOOLS_USE_LOOP_CORE_CONFIG",
        "-DRLTOOLS_DISABLE_TENSORBOARD",
        "-DRL_TOOLS_BACKEND_ENABLE_OPENBLAS",
        "-DRL_TOOLS_DISABLE_UNALIGNED_MEMORY_ALLOCATIONS",
        # The wheel adds a prefix to its functions.
        "-Dcblas_sgemm=scipy_cblas_sgemm",
        "-Dcblas_dgemm=scipy_cblas_dgemm",
        f"-L{library}",
        f"-Wl,-rpath,{library}",
        f"-l{scipy_openblas32.get_library()}",
    ]
    with contextlib.redirect_stdout(sys.stderr):
        path = compiler.compile(str(source), module, [*flags, *common], force_recompile=changed)
    return load_module(module, path)


class Learner:
    """Takes gradient steps on batches gathered beforehand. For PPO, a step is an update of several gradient steps."""

    def __init__(self, workload, batch_size, threads):  # OpenBLAS reads its threads from the environment
        name, environment = workload["algorithm"]["name"], workload["environment"]
        if name not in SETTINGS:
            raise ValueError(f"algorithm {name}: RLtools has {', '.join(SETTINGS)}")
        hidden = "_".join(map(str, workload["network"]["hidden"]))
        (observation_size,), action_size = environment["observation_shape"], environment["action_size"]
        module = f"{name}_{hidden}_{batch_size}_{observation_size}_{action_size}"
        if name == "ppo":
            module += f"_{workload['training']['actors']}_{workload['algorithm']['trajectory_length']}"
        settings = SETTINGS[name](workload, batch_size)
        flags = [
            f"-I{FOLDER}",
            f"-DALGORITHM_{name.upper()}",
            f"-DOBSERVATION_SIZE={observation_size}",
            f"-DACTION_SIZE={action_size}",
            f"-DHIDDEN_SIZE={workload['network']['hidden'][0]}",
            "-DRL_TOOLS_EPISODE_STEP_LIMIT=1000",
        ]
        extension = compiled(FOLDER / "gradient_step.cpp", module, name, settings, flags)
        samples = 1 if name == "ppo" else SAMPLES  # an iteration of PPO collects its own samples
        self._trainer = extension.Trainer(0, samples)

    def checksum(self):
        """Return the sum of the first layer's weights, which changes when the network learns."""
        return self._trainer.checksum()

    def time_steps(self, count):
        """Take `count` steps, and return the seconds that they took."""
        return self._trainer.train(count)


create = Learner
