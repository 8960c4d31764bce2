"""Counts environment steps and gradient steps inside a script, where sampling from outside cannot.

Python imports this file when it starts if its folder is on PYTHONPATH, in the script's own interpreter: it uses the
standard library alone, and does nothing unless `FOLDER` is set. Each process of the script keeps its counters in a file
that it maps into memory, so that they can be read at any time from outside, and after the process was killed.

Each process writes into the folder of `FOLDER`:

    PID.counts    `SLOTS` 64-bit integers; see below
    PID.facts     what was seen once, one JSON object a line, such as the data type of an optimizer's parameters

Of the integers, the first two are written from outside: the table that counts now, and the threads that PyTorch shall
use (0: as they are). Then come the tables. A table has, for each kind of event and the kind before it, the number of
such pairs and the nanoseconds between the two.
"""

import importlib.abc
import importlib.util
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

FOLDER = "PLACERL_WHY"
TABLE, THREADS, FIRST = 0, 1, 2
ENVIRONMENT, GRADIENT = 0, 1
KINDS = 2
TABLES = 3
WIDTH = KINDS * KINDS * 2
SLOTS = FIRST + TABLES * WIDTH
_BACKWARDS = 3
"""Backward passes whose batch size is looked up."""


class Counters:
    """The counters of this process.

    Args:
        folder: where its files are written.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.inside = False
        self.seen: set[str] = set()
        self.environments: set[type] = set()
        self.open()

    def open(self) -> None:
        """Map this process's own file; a forked process must not count in its parent's."""
        path = os.path.join(self.folder, f"{os.getpid()}.counts")
        with open(path, "w+b") as file:
            file.truncate(SLOTS * 8)
            self.slots: Any = memoryview(mmap.mmap(file.fileno(), SLOTS * 8)).cast("q")
        self.last, self.kind, self.threads = time.perf_counter_ns(), ENVIRONMENT, 0

    def event(self, kind: int) -> None:
        """Count an event, and do what was asked for from outside."""
        slots, now = self.slots, time.perf_counter_ns()
        slot = FIRST + slots[TABLE] * WIDTH + (self.kind * KINDS + kind) * 2
        slots[slot] += 1
        slots[slot + 1] += now - self.last
        self.last, self.kind = now, kind
        if slots[THREADS] != self.threads:
            self.threads = slots[THREADS]
            sys.modules["torch"].set_num_threads(self.threads)

    def fact(self, name: str, **values: Any) -> None:
        """Write a fact, unless the same was written before."""
        line = json.dumps({"fact": name, **values})
        if line not in self.seen:
            self.seen.add(line)
            with open(os.path.join(self.folder, f"{os.getpid()}.facts"), "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return an environment's step that counts; of steps inside each other, the outermost."""

        def placerl_step(env: Any, *arguments: Any, **options: Any) -> Any:
            if self.inside:
                return step(env, *arguments, **options)
            self.inside = True
            try:
                return step(env, *arguments, **options)
            finally:
                self.inside = False
                self.event(ENVIRONMENT)
                if type(env) not in self.environments:
                    self.environments.add(type(env))
                    self.fact("environment", kind=type(env).__name__, count=_copies(env))

        return placerl_step


def _copies(env: Any) -> int:
    """Return how many environments step together, by the names that libraries have for it."""
    return int(getattr(env, "num_envs", 0) or getattr(env, "env_num", 1))


def _steps(counters: Counters, *classes: str) -> Callable[[Any], None]:
    def patch(module: Any) -> None:
        for name in classes:
            owner = getattr(module, name)
            owner.step = counters.counted(owner.step)

    return patch


def _optimizer(counters: Counters) -> Callable[[Any], None]:
    known: set[int] = set()

    def after(optimizer: Any, *_: Any) -> None:
        counters.event(GRADIENT)
        if id(optimizer) not in known:
            known.add(id(optimizer))
            parameters = [one for group in optimizer.param_groups for one in group["params"]]
            kinds = {(str(one.dtype).removeprefix("torch."), one.device.type) for one in parameters}
            shapes = [list(one.shape) for one in parameters][:64]
            counters.fact("optimizer", kinds=sorted(kinds), shapes=shapes)
            torch = sys.modules["torch"]
            counters.fact("threads", torch=torch.get_num_threads())

    return lambda module: module.register_optimizer_step_post_hook(after)


def _updates(counters: Counters, *classes: str) -> Callable[[Any], None]:
    """Count the gradient steps of SBX, which computes them in JAX: after each `train`, as many as it says it took."""

    def counted(train: Callable[..., Any]) -> Callable[..., Any]:
        def placerl_train(algorithm: Any, *arguments: Any, **options: Any) -> Any:
            before = algorithm._n_updates
            result = train(algorithm, *arguments, **options)
            for _ in range(algorithm._n_updates - before):
                counters.event(GRADIENT)
            return result

        return placerl_train

    def begin(kind: Any, **options: Any) -> None:
        if "train" in vars(kind):
            kind.train = counted(kind.train)

    def patch(module: Any) -> None:
        for name in classes:
            getattr(module, name).__init_subclass__ = classmethod(begin)

    return patch


def _rows(loss: Any, convolution: Callable[..., None]) -> int:
    """Return the most rows that a layer takes in the graph of a loss, which is the batch size.

    Args:
        convolution: called for each convolution with `weight`, the shape of its weights, `input`, that of an item,
            and its `stride` and `padding`.
    """
    waiting, most = [loss.grad_fn], 0
    seen: set[Any] = set()
    while waiting and len(seen) < 5000:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if "Addmm" in type(node).__name__:
            most = max(most, int(node._saved_mat1_sym_sizes[0]))
        elif "Convolution" in type(node).__name__:
            rows, *item = node._saved_input.shape
            most = max(most, int(rows))
            strides = {"stride": list(node._saved_stride), "padding": list(node._saved_padding)}
            convolution(weight=list(node._saved_weight.shape), input=item, **strides)
        waiting += [before for before, _ in node.next_functions]
    return most


def _backward(counters: Counters) -> Callable[[Any], None]:
    def patch(module: Any) -> None:
        original, left = module.Tensor.backward, [_BACKWARDS]

        def backward(self: Any, *arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] <= 0:
                module.Tensor.backward = original
            counters.fact("batch", rows=_rows(self, lambda **shape: counters.fact("convolution", **shape)))
            return original(self, *arguments, **options)

        module.Tensor.backward = backward

    return patch


class Patches(importlib.abc.MetaPathFinder):
    """Patches some modules when the script has imported them.

    Args:
        patches: what is done to a module, by the module's name.
    """

    def __init__(self, patches: dict[str, Callable[[Any], None]], counters: Counters) -> None:
        self.patches, self.counters = patches, counters

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        patch = self.patches.pop(fullname, None)
        spec = PathFinder.find_spec(fullname, path, target) if patch else None
        if patch is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            try:
                patch(module)
            except Exception as error:  # the script must run all the same
                self.counters.fact("unpatched", module=fullname, reason=repr(error))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _may_be_traced() -> None:
    """Let a process that is no ancestor trace this one, where the kernel allows it to ancestors alone (Yama)."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            restricted = file.read().strip() == "1"
    except OSError:
        return
    if restricted:
        import ctypes

        set_ptracer, anyone = 0x59616D61, ctypes.c_ulong(-1)
        ctypes.CDLL(None).prctl(set_ptracer, anyone, 0, 0, 0)


def begin(folder: str) -> None:
    """Count in this process and in those that it forks."""
    counters = Counters(folder)
    os.register_at_fork(after_in_child=counters.open)
    patches = {
        "torch.optim.optimizer": _optimizer(counters),
        "torch": _backward(counters),
        "gymnasium.wrappers.common": _steps(counters, "OrderEnforcing"),
        "gymnasium.vector.sync_vector_env": _steps(counters, "SyncVectorEnv"),
        "gymnasium.vector.async_vector_env": _steps(counters, "AsyncVectorEnv"),
        "stable_baselines3.common.vec_env.base_vec_env": _steps(counters, "VecEnv"),
        "torchrl.envs.common": _steps(counters, "EnvBase"),
        "tianshou.env.venvs": _steps(counters, "BaseVectorEnv"),
        "sbx.common.off_policy_algorithm": _updates(counters, "OffPolicyAlgorithmJax"),
        "sbx.common.on_policy_algorithm": _updates(counters, "OnPolicyAlgorithmJax"),
    }
    sys.meta_path.insert(0, Patches(patches, counters))
    _may_be_traced()


def _replaced() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize" and FOLDER in os.environ:
    begin(os.environ[FOLDER])
    _replaced()
