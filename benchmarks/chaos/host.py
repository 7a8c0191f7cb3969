"""Small disks and memory limits of servers. Both need root."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_BLOCK = 1 << 16


class Disk:
    """A tmpfs of a size. Close unmounts it."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)],
            check=True,
            capture_output=True,
        )

    def fill(self) -> None:
        """Takes all the space that is left."""
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(_BLOCK)):
                pass

    def heal(self) -> None:
        """Gives the space back."""
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmounts it."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


class Group:
    """A memory cgroup. Close removes it."""

    def __init__(self, name: str, limit: int) -> None:
        v1, v2 = _GROUPS
        root = v1 if v1.exists() else v2
        self._limit = "memory.limit_in_bytes" if v1.exists() else "memory.max"
        self._folder = root / name
        self._folder.mkdir()
        self.limit = limit
        self.heal()

    def join(self, pid: int) -> None:
        """Puts a process into the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def squeeze(self, limit: int) -> None:
        """Lowers the limit, as far as the kernel can reclaim memory."""
        with contextlib.suppress(OSError):  # too much is in use
            (self._folder / self._limit).write_text(str(limit))

    def heal(self) -> None:
        """Restores the limit."""
        (self._folder / self._limit).write_text(str(self.limit))

    def close(self) -> None:
        """Removes the group, whose processes have ended."""
        for _ in range(50):
            try:
                self._folder.rmdir()
            except OSError as e:
                if e.errno != errno.EBUSY:
                    return
                time.sleep(0.1)
            else:
                return


def possible() -> str:
    """Why there can be no small disks and memory limits here; "" if there can be."""
    if os.getuid() != 0:
        return "only root mounts disks and limits memory"
    if not any((root / "cgroup.procs").exists() and os.access(root, os.W_OK) for root in _GROUPS):
        return "there is no memory cgroup to write to"
    return ""
