"""Networks: exact counts against the papers' figures, forward passes against torch.nn."""

import numpy as np
import pytest
import torch
from torch import nn

from placerl.primitives.algorithms import networks
from placerl.primitives.algorithms.networks import (
    MLP,
    NatureCNN,
    NetworkDescription,
    forward_macs,
    parameter_count,
)


def as_module(network: networks.Network, parameters: networks.Parameters) -> nn.Module:
    """The same MLP out of torch.nn, holding the same numbers."""
    modules: list[nn.Module] = []
    for index, layer in enumerate(network.layers):
        linear = nn.Linear(layer.weight_shape[1], layer.weight_shape[0], dtype=parameters["0.weight"].dtype)
        linear.weight.data.copy_(parameters[f"{index}.weight"])
        linear.bias.data.copy_(parameters[f"{index}.bias"])
        modules += [linear, nn.Tanh() if network.activation == "tanh" else nn.ReLU()]
    modules.pop()
    if network.output_activation == "tanh":
        modules.append(nn.Tanh())
    return nn.Sequential(*modules)


def test_counts_of_an_mlp_by_hand():
    network = MLP((4, 8, 8, 1))
    assert forward_macs(network) == 4 * 8 + 8 * 8 + 8 * 1
    assert parameter_count(network) == (4 * 8 + 8) + (8 * 8 + 8) + (8 + 1)


@pytest.mark.parametrize(
    ("states", "actions", "hidden", "published"), [(4, 1, 8, "137"), (11, 3, 256, "70.1K")]
)
def test_map_table_iii_macs_are_the_parameters_of_a_critic_with_one_more_input(
    states, actions, hidden, published
):
    # MAP Table III, column "MACs". No count of multiply-accumulates of the stated networks gives these;
    # the number of parameters of a critic with |S| + |A| + 1 inputs gives both.
    def rounded(count):
        return str(count) if count < 1000 else f"{count / 1000:.1f}K"

    critic = MLP((states + actions, hidden, hidden, 1))
    actor = MLP((states, hidden, hidden, actions))
    wider = MLP((states + actions + 1, hidden, hidden, 1))
    assert rounded(parameter_count(wider)) == published
    others = [f(n) for f in (forward_macs, parameter_count) for n in (critic, actor)] + [forward_macs(wider)]
    assert published not in {rounded(count) for count in others}


def test_the_published_count_of_cartpole_digit_by_digit():
    assert (6 * 8 + 8) + (8 * 8 + 8) + (8 * 1 + 1) == 137  # MAP Table III, row CartPole
    assert (15 * 256 + 256) + (256 * 256 + 256) + (256 + 1) == 70_145  # row Hopper: 70.1K


def test_counts_of_the_nature_cnn_by_hand():
    network = NatureCNN(head=6)
    first, second, third = 20 * 20 * 32 * (8 * 8 * 4), 9 * 9 * 64 * (4 * 4 * 32), 7 * 7 * 64 * (3 * 3 * 64)
    assert [layer.macs for layer in network.layers] == [first, second, third, 3136 * 512, 512 * 6]
    assert forward_macs(network) == 9_346_048
    # MAP Table III gives 18.8M: within 1% of one addition and one multiplication for each of these.
    assert 2 * forward_macs(network) == pytest.approx(18.8e6, rel=0.01)
    assert parameter_count(network) == sum(
        p.numel() for p in networks.initialise(network, torch.Generator().manual_seed(0)).values()
    )


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("output_activation", ["none", "tanh"])
def test_an_mlp_computes_what_torch_nn_computes(activation, output_activation):
    network = MLP((5, 7, 6, 3), activation, output_activation)
    parameters = networks.initialise(network, torch.Generator().manual_seed(1), torch.float64)
    x = torch.randn(4, 5, dtype=torch.float64)
    expected = as_module(network, parameters)(x)
    torch.testing.assert_close(network(parameters, x), expected)
    arrays = {name: value.numpy() for name, value in parameters.items()}
    np.testing.assert_allclose(network(arrays, x.numpy()), expected.detach().numpy(), rtol=1e-12)


def test_the_nature_cnn_computes_what_torch_nn_computes():
    network = NatureCNN(head=6)
    parameters = networks.initialise(network, torch.Generator().manual_seed(1), torch.float64)
    modules = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
    ).double()  # fmt: skip
    for own, theirs in zip(parameters.values(), modules.parameters(), strict=True):
        theirs.data.copy_(own)
    x = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(network(parameters, x), modules(x.double() / 255))
    arrays = {name: value.numpy() for name, value in parameters.items()}
    np.testing.assert_allclose(network(arrays, x.numpy()), network(parameters, x).numpy())


def test_a_trunk_without_a_head_gives_its_features():
    trunk = NatureCNN()
    parameters = networks.initialise(trunk, torch.Generator().manual_seed(0))
    assert trunk(parameters, torch.zeros(3, 4, 84, 84)).shape == (3, 512)
    assert trunk.outputs == 512


def test_the_same_seed_gives_the_same_parameters_in_both_widths():
    network = MLP((3, 8, 2))
    wide = networks.initialise(network, torch.Generator().manual_seed(3), torch.float64)
    narrow = networks.initialise(network, torch.Generator().manual_seed(3), torch.float32)
    for name in wide:
        torch.testing.assert_close(narrow[name], wide[name].float(), rtol=0, atol=0)


def test_orthogonal_weights_have_the_gain_asked_for():
    network = MLP((8, 8, 8))
    weight = networks.initialise(network, torch.Generator().manual_seed(0), torch.float64, (2.0, 0.01))
    torch.testing.assert_close(
        weight["0.weight"] @ weight["0.weight"].T, 4 * torch.eye(8, dtype=torch.float64)
    )
    assert not weight["1.bias"].any()


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"kind": "transformer"}, "kind"),
        ({"activation": "gelu"}, "activation"),
        ({"hidden": [0]}, "hidden"),
        ({"width": 3}, "network"),
    ],
)
def test_a_wrong_description_names_the_field(description, message):
    with pytest.raises(ValueError, match=message):
        NetworkDescription.of(description)


def test_an_image_too_small_for_the_kernels_is_refused():
    with pytest.raises(ValueError, match="input_shape"):
        NatureCNN(input_shape=(4, 20, 20))
