"""MuJoCo's warnings as Python's."""

import pytest

from placerl.harness import environments, workloads

mujoco = pytest.importorskip("mujoco")


def test_a_deprecated_attribute_of_a_model_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    environments.make(workloads.load("halfcheetah-ddpg").environment, seed=0).close()
    assert capfd.readouterr().err == ""


def test_any_other_warning_is_a_python_warning() -> None:
    environments.make(workloads.load("hopper-ddpg").environment, seed=0).close()
    with pytest.warns(RuntimeWarning, match="MuJoCo: Nan, Inf or huge value"):
        mujoco.get_mju_user_warning()("Nan, Inf or huge value in QACC")
