"""Uniform replay whose steps stay on the device, as `UniformReplay` does them."""

from collections.abc import Callable
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placerl.primitives.device import Buffer, Part, Stream, philox
from placerl.primitives.replay.device.device_storage import DeviceStorage
from placerl.primitives.replay.device.resident import ResidentReplay


def kernel_source() -> str:
    """Return the source of the kernels, in the language that all devices share."""
    return philox.kernel_source() + files(__package__).joinpath("uniform_kernels.h").read_text()


class ResidentUniformReplay(ResidentReplay):
    """Draws every item with the same probability, on a device; all importance weights are 1.

    Args:
        storage, batch_size, seed, stream: as of `ResidentReplay`.
        stratified: whether each of B equal parts of the rows gets one item.
    """

    def __init__(
        self,
        storage: DeviceStorage,
        batch_size: int,
        *,
        stratified: bool = False,
        seed: int = 0,
        stream: Stream | None = None,
    ) -> None:
        super().__init__(storage, batch_size, kernel_source(), seed=seed, stream=stream)
        self._stratified = np.int32(stratified)
        self._held, self._wrong = self.stream.zeros(8), self.stream.zeros(8)

    def _launch_draw(self, target: Buffer, weights_at: np.int64) -> None:
        count, drawn = self.batch_size, (self.step, *self.key, self._stratified, self._held, self.indices)
        self.stream.launch(self._kernels["draw_rows"], count, *drawn, target, weights_at, np.int64(count))

    def _launch_advance(self) -> None:
        self.stream.launch(self._kernels["count_batch"], 1, self.step)

    def launch_update(self, td_errors: Part) -> None:
        """Start to check the TD errors as prioritised replay does; there are no priorities.

        Args:
            td_errors: (B,) float32.
        """
        source, count = (td_errors.buffer, np.int64(td_errors.offset_bytes)), self.batch_size
        self.stream.launch(self._kernels["check_errors"], count, *source, self._wrong, np.int64(count))

    def inserter(self, indices: Buffer, inserted: Buffer, count: int) -> Callable[[], None]:
        capacity = np.int64(self.storage.capacity)
        return lambda: self.stream.launch(self._kernels["count_rows"], 1, self._held, inserted, capacity)

    def _insert(self, rows: NDArray[np.int64], td_errors: ArrayLike | None) -> None:
        if td_errors is not None:
            raise TypeError("td_errors: found some; allowed: None, as uniform replay has no priorities")
        held = min(self.storage.size + len(rows), self.storage.capacity)
        self.stream.upload(self._held, np.array([held], np.int64))

    def _was_wrong(self) -> bool:
        wrong = bool(self.stream.download(self._wrong, (), np.int64))
        if wrong:
            self.stream.clear(self._wrong, 8)
        return wrong
