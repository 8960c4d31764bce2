"""Snapshots on disk: arrays and a few numbers in one file that is either complete or absent.

The file is an uncompressed zip of NumPy's .npy files, which `numpy.load(path, allow_pickle=False)` can read too,
and one `metadata.json`. Its contents are never executed: no pickle is written or read.
"""

import errno
import json
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

_METADATA = "metadata.json"
_METADATA_LIMIT_BYTES = 1 << 24
_CHUNK_BYTES = 1 << 20
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def write(
    path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray], metadata: Mapping[str, Any]
) -> None:
    """Write a snapshot atomically: at every moment `path` holds either the complete old file or the complete new
    one.

    The data is written to `<path>.partial`, flushed to disk, and renamed. Only one writer at a time may use a
    path.

    Args:
        path: the file; its folder exists.
        arrays: by name, of any shape and of any dtype except Python objects.
        metadata: values that JSON can hold.

    Raises:
        OSError: the file could not be written; `path` is unchanged.
        ValueError: an array holds Python objects, or the metadata take more than 16 MiB; `path` is unchanged.
    """
    text = json.dumps(metadata).encode()
    if len(text) > _METADATA_LIMIT_BYTES:
        raise ValueError(f"metadata: found {len(text)} bytes; allowed: at most {_METADATA_LIMIT_BYTES}")
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_METADATA, text)
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Reader:
    """Reads a snapshot into existing arrays, so that loading needs no second copy.

    Every size is compared with what the caller expects before any byte is read, so that a hostile file can
    neither exhaust memory nor overrun an array.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
            ValueError: it is not a snapshot.
        """
        self._path = Path(path)
        with ExitStack() as stack:
            file = stack.enter_context(open(self._path, "rb"))
            with self._refusing_damage():
                self._archive = stack.enter_context(zipfile.ZipFile(file))
                self.metadata = self._read_metadata()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        """Turn the many errors that a damaged zip raises into one error that names the file."""
        try:
            yield
        except (
            zipfile.BadZipFile,
            EOFError,
            LookupError,
            NotImplementedError,
            OSError,
            RuntimeError,
            ValueError,
            struct.error,
        ) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise ValueError(f"{self._path}: found {error}; allowed: an undamaged replay snapshot") from error

    def _read_metadata(self) -> dict[str, Any]:
        member = self._archive.getinfo(_METADATA)
        if member.file_size > _METADATA_LIMIT_BYTES or member.compress_type != zipfile.ZIP_STORED:
            raise ValueError("metadata of an unexpected form")
        metadata = json.loads(self._archive.read(member))
        if not isinstance(metadata, dict):
            raise ValueError("metadata that is no table")
        return metadata

    def verify(self, arrays: Mapping[str, npt.NDArray]) -> None:
        """Check that the file holds exactly the given arrays, undamaged.

        Args:
            arrays: by name; only their shapes and dtypes matter.

        Raises:
            ValueError: other names, shapes or dtypes, or damaged contents.
        """
        with self._refusing_damage():
            expected = {_METADATA, *(f"{name}.npy" for name in arrays)}
            names = self._archive.namelist()
            if sorted(names) != sorted(expected):
                raise ValueError(f"arrays {sorted(names)} where {sorted(expected)} were expected")
            for name, array in arrays.items():
                self._open(name, array).close()
            if damaged := self._archive.testzip():
                raise ValueError(f"damaged contents in {damaged!r}")

    def fill(self, arrays: Mapping[str, npt.NDArray]) -> None:
        """Read arrays of the file, after `verify` has checked it.

        Args:
            arrays: by name, the C-contiguous arrays to fill; some or all of those in the file.
        """
        for name, array in arrays.items():
            if array.nbytes:
                with self._refusing_damage(), self._open(name, array) as member:
                    _fill(member, array.reshape(-1).view(np.uint8).data)

    def _open(self, name: str, array: npt.NDArray) -> IO[bytes]:
        """Open a member and read its header, which is checked against `array`."""
        info = self._archive.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"a compressed {name!r}")
        with ExitStack() as stack:
            member = stack.enter_context(self._archive.open(info))
            read_header = _READ_HEADER[np.lib.format.read_magic(member)]
            shape, fortran, dtype = read_header(member)
            if (shape, dtype) != (array.shape, array.dtype) or fortran:
                raise ValueError(
                    f"{name!r} of {shape} {dtype} where {array.shape} {array.dtype} was expected"
                )
            if info.file_size != member.tell() + array.nbytes:
                raise ValueError(f"{name!r} of {info.file_size} bytes")
            stack.pop_all()
            return member


def _fill(member: IO[bytes], target: memoryview) -> None:
    filled = 0
    while filled < len(target):
        chunk = member.read(min(_CHUNK_BYTES, len(target) - filled))
        if not chunk:
            raise EOFError("a truncated array")
        target[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
