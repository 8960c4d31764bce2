"""Adam, clipping and Polyak averaging against torch.optim and their definitions."""

import pytest
import torch

from placerl.primitives.algorithms.updates import PURE, initial_adam


def parameters(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator, dtype=dtype)
        for name, shape in (("a", (3, 2)), ("b", (2,)))
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_adam_is_torch_adam(dtype, tolerance):
    ours, state = parameters(dtype), initial_adam(parameters(dtype))
    theirs = [value.clone().requires_grad_() for value in ours.values()]
    optimiser = torch.optim.Adam(theirs, lr=0.01)
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        gradients = {
            name: torch.randn(value.shape, generator=generator, dtype=dtype) for name, value in ours.items()
        }
        for leaf, gradient in zip(theirs, gradients.values(), strict=True):
            leaf.grad = gradient
        optimiser.step()
        ours, state = PURE.adam(ours, gradients, state, 0.01)
        for own, leaf in zip(ours.values(), theirs, strict=True):
            torch.testing.assert_close(own, leaf.detach(), rtol=tolerance, atol=tolerance)
    assert state.step == 20


def test_adam_leaves_its_arguments_alone():
    before, state = parameters(), initial_adam(parameters())
    PURE.adam(before, {name: torch.ones_like(value) for name, value in before.items()}, state, 0.1)
    assert all(torch.equal(before[name], value) for name, value in parameters().items())
    assert state.step == 0
    assert not state.mean["a"].any()


def test_clipping_is_torch_clipping():
    gradients = parameters()
    leaves = [value.clone().requires_grad_() for value in gradients.values()]
    for leaf, gradient in zip(leaves, gradients.values(), strict=True):
        leaf.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(leaves, 0.5)
    for own, leaf in zip(PURE.clip(gradients, 0.5).values(), leaves, strict=True):
        torch.testing.assert_close(own, leaf.grad)
    assert PURE.clip(gradients, None) is gradients
    small = PURE.clip(gradients, 1e6)
    assert all(torch.equal(small[name], gradients[name]) for name in gradients)


@pytest.mark.parametrize("tau", [0.005, 0.5, 1.0])
def test_polyak_is_the_weighted_mean(tau):
    target, online = parameters(), {name: value + 1 for name, value in parameters().items()}
    for name, value in PURE.polyak(target, online, tau).items():
        torch.testing.assert_close(value, (1 - tau) * target[name] + tau * online[name])
        assert value.data_ptr() not in (target[name].data_ptr(), online[name].data_ptr())
