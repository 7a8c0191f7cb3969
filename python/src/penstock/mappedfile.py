"""The mapped files of deliveries, each of which is an open file of this process."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable

from penstock import errors

if sys.platform == "linux":
    import fcntl
    import resource

# F_SEAL_SHRINK and F_SEAL_FUTURE_WRITE: the file cannot shrink under its mapping, and only the server writes to it.
_SEALS = 0x0002 | 0x0010

# The ids of the mapped files. Finalizers use this set without a lock: adding to a set and discarding from it are atomic.
_open: set[int] = set()


class MappedFile(mmap.mmap):
    """The mapped file of a delivery. Writes to it stay in this process."""

    returned: Callable[[int], None] | None = None
    number = 0

    def lend(self, number: int, returned: Callable[[int], None]) -> None:
        """Sets what to call with the number of the delivery when the last buffer of the file is freed."""
        self.number, self.returned = number, returned
        _open.add(id(self))

    def __del__(self) -> None:
        if self.returned is not None and not sys.is_finalizing():
            _open.discard(id(self))
            self.returned(self.number)


def map_file(file: int, size: int) -> MappedFile:
    """Maps a file that a server has passed.

    Raises:
        Corrupt: the file may change, or is shorter.
        OSError: it cannot be mapped.
    """
    if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise errors.Corrupt("the server passed memory that may change")
    try:
        return MappedFile(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except (ValueError, OverflowError) as e:
        raise errors.Corrupt(f"map a batch of {size} bytes: {e}") from e


def full() -> bool:
    """Reports whether the mapped files are a quarter of the files that this process may open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and len(_open) >= limit // 4
