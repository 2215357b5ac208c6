"""What each of several workers counted, for whichever of them is asked."""

from __future__ import annotations

import os
import tempfile

from tallystick.system.file_locks import bytes_locked


class WorkerReadings:
    """A file without a name for each worker, shared by those that were forked afterwards: nothing is left behind."""

    def __init__(self, count: int) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(count)]  # noqa: SIM115  # open for as long as the process lives

    def publish(self, number: int, reading: bytes) -> None:
        file = self._files[number].fileno()
        with bytes_locked(file):
            os.ftruncate(file, 0)
            os.pwrite(file, reading, 0)

    def read(self) -> dict[int, bytes]:
        """By the number of the worker; those that said nothing yet are left out."""
        return {number: reading for number, file in enumerate(self._files) if (reading := _read(file.fileno()))}


def _read(file: int) -> bytes:
    with bytes_locked(file):
        return os.pread(file, os.fstat(file).st_size, 0)
