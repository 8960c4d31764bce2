"""What is timed here has the shapes and the costs of the script's."""

import torch

from placerl.harness.why.causes.timed import Network, gather_s, interleaved


def test_shapes_become_networks() -> None:
    shapes = [[64, 4], [64], [2, 64], [2], [64, 4], [64], [1, 64], [1]]
    network = Network(shapes, "float64", torch.get_num_threads())
    assert [[layer.out_features for layer in chain] for chain in network.chains] == [[64, 2], [64, 1]]
    before = network.chains[0][0].weight.detach().clone()
    network.step(8)()
    assert network.chains[0][0].weight.dtype == torch.float64
    assert not torch.equal(before, network.chains[0][0].weight)


def test_convolutions_are_followed_by_the_layers_that_take_them_flattened() -> None:
    shapes = [[16, 4, 8, 8], [16], [32, 16, 4, 4], [32], [64, 32 * 9 * 9], [64], [2, 64], [2]]
    convolutions = [
        {"input": [4, 84, 84], "stride": [4, 4], "padding": [0, 0]},
        {"input": [16, 20, 20], "stride": [2, 2], "padding": [0, 0]},
    ]
    network = Network(shapes, "float32", torch.get_num_threads(), convolutions)
    (chain,) = network.chains
    before = [layer.weight.detach().clone() for layer in chain]
    network.step(3)()
    assert len(chain) == 4
    assert not any(torch.equal(one, layer.weight) for one, layer in zip(before, chain, strict=True))


def test_the_slower_call_takes_longer() -> None:
    few, many = interleaved(lambda: sum(range(100)), lambda: sum(range(10_000)))
    assert many > 10 * few
    assert gather_s(10_000, 64, 5) > 2 * gather_s(10, 64, 5)
