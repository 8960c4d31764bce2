"""Lines of a user's own file, and frames of libraries, belong to the piece that a reader would say."""

import re
from pathlib import Path

import pytest

from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import place
from placerl.harness.why.stacks import Frame

SCRIPT = '''
class Network(nn.Module):
    def forward(self, x):
        return self.layers(x)  # its callers decide

class Slow(gym.Wrapper):
    def step(self, action):
        state, *rest = self.env.step(action)
        return scaled(state), *rest  # environment

class ReplayBuffer:
    def add(self, row):
        self.rows[self.position] = row  # insertion

    def sample(self, count):
        rows = [self.rows[k] for k in random.sample(range(self.size), count)]  # sampling
        return torch.from_numpy(np.stack(rows))  # sampling

def evaluate(net):
    state, _ = env.reset()  # evaluation
    env.step(net(state))  # evaluation

def train(net):
    while True:
        with torch.no_grad():
            values = net(states.to(device))  # inference
        actions = choose(values)  # inference
        states, rewards, *_ = envs.step(actions)  # environment
        memory.push(states)  # insertion
        words.append(states)  # other code
        if count % 1000 == 0:
            print(count)  # logging
        batch = memory.sample(32)  # sampling
        batch = batch.to(device)  # transfers
        goal = rewards + target(batch)  # gradient step
        loss = criterion(net(batch), goal)  # gradient step
        optimizer.zero_grad()  # gradient step
        loss.backward()  # gradient step
        optimizer.step()  # gradient step
        scheduler.step()  # gradient step
        replay.update_priorities(rows, loss)  # priorities
        time.sleep(0.1)  # waiting

train(net)
'''  # fmt: skip
EXPECTED = {
    number: found[1]
    for number, line in enumerate(SCRIPT.splitlines(), 1)
    if (found := re.search(r"# ([a-z -]+)$", line)) and found[1] != "its callers decide"
}
FUNCTIONS = {
    8: "Slow.step",
    9: "Slow.step",
    13: "ReplayBuffer.add",
    16: "ReplayBuffer.sample",
    17: "ReplayBuffer.sample",
}
BUFFERS = "stable_baselines3/common/buffers.py"
SITE = "/env/lib/python3.11/site-packages"


def frame(path: Path, line: int, function: str = "train") -> Frame:
    return Frame(function, str(path), line)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("why") / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


@pytest.mark.parametrize(("line", "piece"), EXPECTED.items())
def test_a_line_of_the_user(script: Path, line: int, piece: str) -> None:
    function = "evaluate" if piece == "evaluation" else FUNCTIONS.get(line, "train")
    found = place([frame(script, 45, "<module>"), frame(script, line, function)])
    assert (found.piece, found.frame.line) == (piece, line)


def test_the_caller_of_a_network_decides(script: Path) -> None:
    inside = [
        Frame("Module._call_impl", f"{SITE}/torch/nn/modules/module.py", 1),
        frame(script, 4, "Network.forward"),
    ]
    linear = Frame("Linear.forward", f"{SITE}/torch/nn/modules/linear.py", 130)
    for line, piece in ((26, Piece.INFERENCE), (36, Piece.GRADIENT)):
        assert place([frame(script, line), *inside, linear]).piece is piece


@pytest.mark.parametrize(
    ("frames", "piece"),
    [
        (["gymnasium/core.py Wrapper.step", "mujoco/x.py f"], "environment"),
        ([f"{BUFFERS} ReplayBuffer.sample", "numpy/x.py f"], "sampling"),
        ([f"{BUFFERS} ReplayBuffer.sample", f"{BUFFERS} ReplayBuffer.to_torch"], "transfers"),
        (["stable_baselines3/sac/sac.py SAC.train", "torch/nn/modules/linear.py Linear.forward"], "gradient step"),
        (["stable_baselines3/dqn/dqn.py DQN.predict", "torch/nn/modules/linear.py Linear.forward"], "inference"),
        (["stable_baselines3/common/evaluation.py evaluate_policy", "gymnasium/core.py Wrapper.step"], "evaluation"),
        (["tianshou/trainer.py OffPolicyTrainer._test_step", "tianshou/data/collector.py collect"], "evaluation"),
        (["pfrl/agents/dqn.py DQN.batch_act", "torch/nn/modules/linear.py Linear.forward"], "inference"),
        (["pfrl/agents/dqn.py DQN.update", "pfrl/replay_buffer.py batch_experiences"], "sampling"),
        (["pfrl/replay_buffers/replay_buffer.py ReplayBuffer.append"], "insertion"),
        (["pfrl/agents/dqn.py DQN.update", "torch/nn/modules/linear.py Linear.forward"], "gradient step"),
        (["tianshou/data/buffer/prio.py PrioritizedReplayBuffer.update_weight"], "priorities"),
        (["torchrl/data/replay_buffers/replay_buffers.py ReplayBuffer.extend"], "insertion"),
        (["torch/utils/tensorboard/writer.py SummaryWriter.add_scalar"], "logging"),
        (["gymnasium/vector/x.py AsyncVectorEnv.step", "../multiprocessing/connection.py Connection._recv"], "waiting"),
        (["pandas/x.py f"], "other code"),
    ],
)  # fmt: skip
def test_a_frame_of_a_library(frames: list[str], piece: str) -> None:
    parts = (one.split() for one in frames)
    assert place([Frame(function, f"{SITE}/{path}", 1) for path, function in parts]).piece == piece
