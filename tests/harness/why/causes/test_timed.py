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


def test_the_slower_call_takes_longer() -> None:
    few, many = interleaved(lambda: sum(range(100)), lambda: sum(range(10_000)))
    assert many > 10 * few
    assert gather_s(10_000, 64, 5) > 2 * gather_s(10, 64, 5)
