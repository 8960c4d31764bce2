"""Fixed-point training on PyTorch, on a CPU or a CUDA device, with the same bits as NumPy's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from placerl.primitives.graph.graph import Graph, Node, View
from placerl.primitives.quantization import fixed_point, vector_unit
from placerl.primitives.quantization.executable import FixedPointExecutable
from placerl.primitives.quantization.fixed_point import Array, Q
from placerl.primitives.quantization.places import BINARY32_LEAST, Located, Product, Step, product_factor
from placerl.primitives.quantization.precision import Precision
from placerl.primitives.quantization.reference_backend import ReferenceFixedPointExecutable
from placerl.primitives.quantization.roles import Operand, Plain, Storage

_INT64 = (1 << 63) - 1


def unavailable_reason() -> str:
    """Return an empty string: the project depends on PyTorch."""
    return ""


def executable(graphs: Mapping[str, Graph], precision: Precision, device: str) -> FixedPointExecutable:
    """Return an executable that runs step graphs in PyTorch.

    Args:
        device: "cpu" or "cuda".
    """
    return TorchExecutable(graphs, precision, device=device)


class TorchExecutable(ReferenceFixedPointExecutable):
    """Runs step graphs in fixed point on PyTorch tensors.

    Sums of products that int64 cannot hold are computed on the host with Python's integers.
    """

    def __init__(self, graphs: Mapping[str, Graph], precision: Precision, *, device: str = "cpu") -> None:
        """Prepare the graphs as `FixedPointExecutable` does, with the buffers on PyTorch's `device`."""
        self._device = torch.device(device)
        super().__init__(graphs, precision)

    def _empty(self, size: int, dtype: str) -> Any:
        return torch.zeros(size, dtype=getattr(torch, dtype), device=self._device)

    def _view(self, array: Any, view: View) -> Any:
        return torch.as_strided(array, view.shape, view.strides, view.offset)

    def _numpy(self, array: Any) -> Array:
        host: Array = array.detach().cpu().numpy()
        return host

    def _assign(self, array: Any, values: Array) -> None:
        array.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(array.shape))

    def _elementwise(self, node: Node, inputs: list[Located], outputs: list[Located]) -> Step:
        def run() -> None:
            registers = [_real(place.array, place.storage) for place in inputs]
            for instruction in node.program:
                arguments = [registers[i] for i in instruction.arguments]
                registers.append(vector_unit.TORCH.apply(instruction, arguments))
            results = [registers[i] for i in node.results]
            for place, result in zip(outputs, results, strict=True):
                self._store(place, result)

        return run

    def _matmul(self, product: Product) -> Step:
        a_format, b_format, c_format = product.formats()

        def run() -> None:
            a, a_step = self._tensor_codes(product.operands[0], product.a.array, a_format)
            b, b_step = self._tensor_codes(product.operands[1], product.b.array, b_format)
            exact = _exact_matmul(a, b)
            factor = product_factor(a_step, b_step, c_format)
            if exact is None:
                sums = fixed_point.exact_matmul(self._numpy(a), self._numpy(b))
                stored = self.rounded(sums, a_step, b_step, c_format)
                self.count(product.c.label, stored.saturated)
                self._assign(product.c.array, stored.raw)
            elif (places := _places(factor)) is not None and places > 0:
                self._keep(product.c, (exact >> places) + (exact >> (places - 1) & 1))
            elif places is not None and float(exact.abs().max()) * factor < _INT64 / 2:
                self._keep(product.c, exact << -places)
            else:
                self._store(product.c, exact.double() * factor, scaled=True)

        return run

    def _tensor_codes(self, operand: Operand, raw: Any, fmt: Q) -> tuple[Any, float]:
        self.capture(operand, raw)
        affine = self.affine.get(operand.key)
        if affine is None:
            return raw, fmt.resolution
        steps = torch.floor(raw.double() * affine.factor(fmt))
        clipped = torch.clip(steps, affine.lowest, affine.highest)
        self.count(f"{operand.role} codes", int((clipped != steps).sum()))
        return clipped.to(torch.int32), affine.delta

    def _store(self, place: Located, values: Any, *, scaled: bool = False) -> None:
        """Round real numbers once into a place; `scaled` ones already count steps of its format."""
        if not isinstance(place.storage, Q):
            if place.storage is Plain.BINARY32:
                values = torch.where(values.abs() < BINARY32_LEAST, 0.0, values.double())
            place.array.copy_(values.to(place.array.dtype).expand(place.array.shape))
            return
        if not scaled:
            values = values.double() * 2.0**place.storage.fraction_bits
        below = torch.floor(values)
        self._keep(place, below + (values - below >= 0.5))

    def _keep(self, place: Located, whole: Any) -> None:
        """Saturate integers (int64, or float64 that may hold NaN) into a place."""
        fmt = place.storage
        assert isinstance(fmt, Q)
        clipped = torch.clip(whole, fmt.lowest, fmt.highest)
        # NaN differs from itself, so it is counted here too.
        self.count(place.label, int((clipped != whole).expand(place.array.shape).sum()))
        if clipped.is_floating_point():
            clipped = torch.nan_to_num(clipped, nan=0.0)
        place.array.copy_(clipped.to(torch.int32).expand(place.array.shape))


def _real(tensor: Any, storage: Storage) -> Any:
    if isinstance(storage, Q):
        return tensor.double() * storage.resolution
    return tensor if storage is Plain.WHOLE else tensor.double()


def _places(factor: float) -> int | None:
    """Return the right shift that a factor equals; None if it is not a power of two."""
    mantissa, exponent = np.frexp(factor)
    return int(1 - exponent) if mantissa == 0.5 else None


def _magnitude(x: Any) -> int:
    return max(abs(int(x.min())), abs(int(x.max()))) if x.numel() else 0


def _exact_matmul(a: Any, b: Any) -> Any:
    """Return the product as `fixed_point.exact_matmul` does; None if int64 cannot hold the sums."""
    bound = _magnitude(a) * _magnitude(b) * max(a.shape[-1], 1)
    if bound < 1 << 53:
        return torch.matmul(a.double(), b.double()).long()
    if bound > _INT64:
        return None
    total: Any = 0
    for i, left in enumerate(_limbs(a)):
        for j, right in enumerate(_limbs(b)):
            total = total + (torch.matmul(left, right).long() << 16 * (i + j))
    return total


def _limbs(x: Any) -> tuple[Any, Any]:
    return (x & 0xFFFF).double(), (x >> 16).double()
