"""Uniform replay whose steps stay on the device, as `UniformReplay` does them."""

from collections.abc import Callable
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives.device import Buffer, Part, Stream, philox
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.resident import Drawn, ResidentReplay


def kernel_source() -> str:
    """Return the source of the kernels, in the language that all devices share."""
    return philox.kernel_source() + files(__package__).joinpath("uniform_kernels.h").read_text()


class ResidentUniformReplay(ResidentReplay):
    """Draws every item with the same probability, on a device; all importance weights are 1.

    Args:
        storage, batch_size, ahead, seed, stream: as of `ResidentReplay`.
        stratified: whether each of B equal parts of the rows gets one item.
    """

    def __init__(
        self,
        storage: DeviceStorage,
        batch_size: int,
        *,
        stratified: bool = False,
        ahead: int = 0,
        seed: int = 0,
        stream: Stream | None = None,
    ) -> None:
        super().__init__(storage, batch_size, kernel_source(), ahead=ahead, seed=seed, stream=stream)
        self._stratified = np.int32(stratified)
        self._wrong = self.stream.zeros(8)

    def _launch_draw(self, indices: Buffer, weights: Part) -> None:
        count, rows = self.batch_size, (self.written, np.int64(self.storage.capacity), indices)
        written = weights.buffer, np.int64(weights.offset_bytes), np.int64(count)
        random = self.step, *self.key, self._stratified
        self.stream.launch(self._kernels["draw_rows"], count, *random, *rows, *written)

    def _launch_advance(self, drawn: Drawn) -> None:
        self.stream.launch(self._kernels["count_batch"], 1, self.step)

    def launch_update(self, td_errors: Part, number: int = 0) -> None:
        """Start to check the TD errors as prioritised replay does; there are no priorities.

        Args:
            td_errors, number: as of `ResidentReplay.launch_update`.
        """
        source, count = (td_errors.buffer, np.int64(td_errors.offset_bytes)), self.batch_size
        self.stream.launch(self._kernels["check_errors"], count, *source, self._wrong, np.int64(count))

    def inserter(self, indices: Buffer, inserted: Buffer, count: int) -> Callable[[], None]:
        return lambda: self.stream.launch(self._kernels["count_rows"], 1, self.written, inserted)

    def _insert(self, rows: NDArray[np.int64], td_errors: ArrayLike | None) -> None:
        if td_errors is not None:
            raise TypeError("td_errors: found some; allowed: None, as uniform replay has no priorities")

    def _was_wrong(self) -> bool:
        wrong = bool(self.stream.download(self._wrong, (), np.int64))
        if wrong:
            self.stream.clear(self._wrong, 8)
        return wrong
