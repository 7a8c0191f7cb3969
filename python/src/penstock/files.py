"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write_whole(file: Path, write: Callable[[Path], object], *, replace: bool = True) -> bool:
    """Lets a file be written, and gives it its name when it is whole and on disk.

    Args:
        file: its folder exists.
        write: writes to the path that it is given, in the same folder.
        replace: whether to take the place of a file that is there.

    Returns:
        Whether the file is this one; False if another is there, which stays.
    """
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        write(part)
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        if replace:
            part.replace(file)
        else:
            try:
                os.link(part, file)
            except FileExistsError:
                return False
            except OSError:  # There are no links here, and so no way to be the first for sure.
                part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(file.parent)
    return True


def _sync_folder(folder: Path) -> None:
    """Puts a new name on disk, where folders can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
