"""Scripts whose shares of time are planted, and a stand-in for PyTorch that is loaded in no time."""

from pathlib import Path
from textwrap import dedent

TORCH = {
    "torch/__init__.py": """
        threads = 2

        class Tensor:
            def backward(self):
                pass

        def get_num_threads():
            return threads

        def set_num_threads(count):
            global threads
            threads = count
            with open("threads.log", "a") as file:
                print(count, file=file)

        from torch import optim
    """,
    "torch/optim/__init__.py": "from torch.optim import optimizer",
    "torch/optim/optimizer.py": """
        hooks = []

        def register_optimizer_step_post_hook(hook):
            hooks.append(hook)

        class Optimizer:
            param_groups = []

            def step(self):
                for hook in hooks:
                    hook(self, (), {})
    """,
}
"""What the probe uses of PyTorch, by file."""

TRAINING = """
    import sys
    import time

    import torch

    class Buffer:
        def sample(self, ms):
            work(ms)

    def work(ms):
        end = time.perf_counter() + ms / 1000
        while time.perf_counter() < end:
            pass

    def evaluate():
        work(2)

    buffer, optimizer = Buffer(), torch.optim.optimizer.Optimizer()
    print("begun", *sys.argv[1:], flush=True)
    end = time.perf_counter() + float(sys.argv[1])
    while time.perf_counter() < end:
        buffer.sample(6)
        evaluate()
        work(2)
        optimizer.step()
    sys.exit(3)
"""
"""Of ten parts of its time, it samples for six, evaluates for two, and does other work for two.

Its argument says for how many seconds it runs; its exit status is 3.
"""


def write(folder: Path, text: str = TRAINING) -> Path:
    """Write a script and the stand-in into a folder, and return the script's path."""
    for name, content in {**TORCH, "train.py": text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(content), encoding="utf-8")
    return folder / "train.py"
