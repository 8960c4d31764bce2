"""Connects to a Ray cluster, or starts a local one that ends with this process."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray.exceptions import RayError

from placerl.harness.cluster import cleaner
from placerl.harness.compare import guard
from placerl.harness.core.errors import UserError

MACHINE = "placerl"
"""Ray's custom resource that each machine of a cluster offers once: `ray start --resources='{"placerl": 1}'`."""
RESTARTS = 3  # how often Ray restarts a process that died, and repeats the call in which it died
_ADDRESSES = "local, auto, or HOST:PORT of a cluster's head"
ANSWER_LIMIT_S = 5.0
"""Seconds in which a cluster's head must answer; it usually takes milliseconds."""
_ANSWERED, _TOKEN = "answered", "token"
_ASK = f"""
import sys
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray._private.services import canonicalize_bootstrap_address
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
if sys.argv[1] == "auto":
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)  # as ray.init does
print("ready", flush=True)
try:
    GcsClient(address=canonicalize_bootstrap_address(sys.argv[1]))
except AuthenticationError:
    print("{_TOKEN}", flush=True)
else:
    print("{_ANSWERED}", flush=True)
"""


@contextmanager
def connected(address: str, needed: Iterable[str] = ()) -> Iterator[None]:
    """Connect to a Ray cluster for the duration of a `with` block.

    With the address "local", this starts a cluster on this machine, which ends with the block. It listens on the
    loopback interface alone, because Ray runs the code of whoever reaches its ports. It keeps its files in its own
    folder, which is removed even if this process is killed.

    Args:
        address: "local", "auto" (the cluster that Ray finds by itself) or HOST:PORT of a cluster's head node.
        needed: custom resources that some node must offer, in addition to `MACHINE`; a local cluster offers them all.

    Raises:
        UserError: nothing answers at the address, or no node offers a needed resource.
    """
    resources = dict.fromkeys((MACHINE, *needed), 1)
    # Without a limit Ray would retry forever a task that does not fit the machine's memory.
    os.environ.setdefault("RAY_task_oom_retries", str(RESTARTS))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray lowers its workers' priority by default, so that other programs would slow them down.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # An ending worker would kill the guards that it started, which must first end what they guard.
    os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")
    if address == "local":
        with _folder() as folder:
            options = {"resources": resources, "include_dashboard": False, "_temp_dir": folder}
            # This name finds every descendant of a worker, even if it moves its temporary files or loses its
            # parent.
            named = {"PLACERL_RAY": folder}
            with _initialised(address, options, guard.environment_in(folder) | named, on_loopback()):
                yield
        return
    check_address(address)  # Ray itself would try for half a minute
    with _initialised(address, {}, {}, nullcontext()):
        offered = ray.cluster_resources()
        for name in resources:
            if not offered.get(name):
                allowed = f"a node started with --resources='{{\"{name}\": 1}}'"
                raise UserError("command line", "--ray", f"no node of {address} offers {name!r}", allowed)
        yield


@contextmanager
def _initialised(
    address: str,
    options: dict[str, Any],
    environment: dict[str, str],
    interfaces: AbstractContextManager[None],
) -> Iterator[None]:
    """Connect to Ray; the processes that Ray starts, and their workers, inherit the environment variables."""
    try:
        with _variables(environment), interfaces:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except Exception as error:  # Ray raises a plain Exception if a busy machine takes long to start a node
        said = str(error).partition("\n")[0]
        raise UserError("command line", "--ray", f"{address!r}: {said}", _ADDRESSES) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let the Ray nodes that this process starts during the block listen on the loopback interface alone.

    A process connects to them by their address, 127.0.0.1:PORT, during such a block only: Ray replaces the address by
    one that other machines reach, and then listens on every interface. Only its setting against clusters of several
    machines prevents this. The processes that Ray starts read it from the environment; this one did when it imported
    Ray.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with _variables({ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _variables(chosen: dict[str, str]) -> Iterator[None]:
    """Set environment variables for processes started during the block."""
    before = dict(os.environ)
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]
            if name in before:
                os.environ[name] = before[name]


@contextmanager
def _folder() -> Iterator[str]:
    """Provide a folder for a local cluster; a separate process removes it when this process is done with it or
    dies.
    """
    folder = guard.temporary_folder()
    read, write = os.pipe()
    try:
        command = [sys.executable, "-P", cleaner.__file__, str(read), folder]
        watcher = subprocess.Popen(command, pass_fds=[read], start_new_session=True)
    except BaseException:
        os.close(write)
        Path(folder).rmdir()
        raise
    finally:
        os.close(read)
    try:
        yield folder
    finally:
        os.close(write)
        watcher.wait()


def brief(error: RayError) -> str:
    """Return one line of text for an error of Ray: the exception that a call raised, or why its process ended."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()] or [""]
    # For an exception in a role's constructor the text is a traceback; for other failures it is advice.
    last = f" ({lines[-1]})" if "Traceback" in str(cause) else ""
    return f"{type(cause).__name__}: {lines[0]}{last}"


def check_address(address: str) -> None:
    """Check that a Ray cluster answers at an address; "local" always passes.

    Raises:
        UserError: no head node of a cluster answers at the address, or it asks for a token; with "auto", Ray finds no
            cluster.
    """
    if address == "local":
        return
    said = "no Ray answers; RAY_ADDRESS, or the last 'ray start', says where"
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, ValueError, OverflowError) as error:
            raise UserError("command line", "--ray", f"{address!r}: {error}", _ADDRESSES) from None
        said = "what listens there is no Ray"
    answer = _answer(address)
    if answer == _TOKEN:
        said, allowed = "its Ray asks for a token", "RAY_AUTH_MODE=token, and the token in ~/.ray/auth_token"
        raise UserError("command line", "--ray", f"{address!r}: {said}", allowed)
    if answer != _ANSWERED:
        raise UserError("command line", "--ray", f"{address!r}: {said}", _ADDRESSES)


def _answer(address: str) -> str:
    """Return what Ray answers at an address, `_ANSWERED` or `_TOKEN`; "" if no Ray answers.

    A separate process asks, because Ray itself retries for minutes and prints each try.
    """
    command = [sys.executable, "-P", "-c", _ASK, address]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=pipe, stderr=null, text=True, bufsize=1) as asking:
        try:
            assert asking.stdout
            if asking.stdout.readline() != "ready\n":  # importing Ray has no time limit
                return ""
            heard, _, _ = select.select([asking.stdout], [], [], ANSWER_LIMIT_S)
            return asking.stdout.readline().strip() if heard else ""
        finally:
            asking.kill()
