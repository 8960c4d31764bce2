"""Batches and plain reference pieces that the algorithms' tests share."""

import pytest
import torch

from placerl.primitives.algorithms import Algorithm


@pytest.fixture
def make_batch():
    """A function from algorithm and batch size to a random batch with every column."""

    def make(algorithm: Algorithm, batch_size: int, seed: int = 0) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        batch = {}
        for name, (shape, dtype) in algorithm.columns(batch_size).items():
            if dtype is torch.int64:
                batch[name] = torch.randint(0, algorithm.action_size, shape, generator=generator)
            elif dtype is torch.uint8:
                batch[name] = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
            else:
                batch[name] = torch.randn(shape, generator=generator, dtype=dtype)
        if "terminated" in batch:
            batch["terminated"] = (batch["terminated"] > 0.5).to(algorithm.dtype)
        if "weight" in batch:
            batch["weight"] = (
                torch.rand(batch["weight"].shape, generator=generator, dtype=algorithm.dtype) + 0.1
            )
        return batch

    return make
