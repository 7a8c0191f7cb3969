"""Atomic file writes: a file is complete or absent."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from penstock import errors

_NEW = 0o666  # less the umask
_PRIVATE = 0o600  # until the file gets the permissions of the old one


def write_atomically(file: Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Writes a file under a temporary name and renames it when it is complete and on disk.

    The new file gets the owner and permissions of the file it replaces. A symbolic link is kept; its target is replaced
    or created.

    Args:
        file: the path; its folder must exist.
        write: a function that writes to the open file.
        replace: whether to replace an existing file.

    Returns:
        Whether the file was written; False if it existed and `replace` is False.

    Raises:
        Invalid: the path is not a regular file, or is an open file, such as /dev/stdout.
        OSError: the file cannot be written. The error names `file`, not the temporary file.
    """
    try:
        return _write_atomically(file, write, replace)
    except OSError as e:
        if e.filename is None:
            raise
        raise OSError(e.errno, e.strerror, str(file)) from e  # without the temporary file's name


def _write_atomically(file: Path, write: Callable[[BinaryIO], object], replace: bool) -> bool:
    old = _status(file)
    if old is not None and not replace:
        return False
    if old is not None and (not stat.S_ISREG(old.st_mode) or _is_open_file(file)):
        raise errors.Invalid(f"{file} is not a regular file, and cannot be replaced", remedy="name a file")
    target = Path(os.path.realpath(file))
    # The name does not include the target's name, which may have the maximum length.
    part = target.with_name(f".penstock-{secrets.token_hex(4)}.part")
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, _NEW if old is None else _PRIVATE)
    try:
        with os.fdopen(handle, "wb") as out:
            write(out)
            out.flush()
            if old is not None:
                _keep_owner(part, old)
                part.chmod(stat.S_IMODE(old.st_mode) & 0o777)
            os.fsync(out.fileno())
        if replace:
            part.replace(target)
        elif not _create(part, target):
            return False
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(target.parent)
    return True


def _status(file: Path) -> os.stat_result | None:
    """Returns the status of a file, following links; None if it does not exist."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _is_open_file(file: Path) -> bool:
    """Reports whether a path, following links, is an open file of a process, as in /dev/fd."""
    while True:
        folder = os.path.realpath(file.parent)
        if folder == "/dev/fd" or folder.startswith("/proc/"):
            return True
        file = Path(folder, file.name)
        if not file.is_symlink():
            return False
        file = Path(folder, file.readlink())


def _keep_owner(part: Path, old: os.stat_result) -> None:
    """Gives a file the owner and group of the file it replaces, or only the group, if permitted."""
    if not hasattr(os, "chown"):
        return
    for owner in (old.st_uid, -1):
        try:
            os.chown(part, owner, old.st_gid)
        except OSError:
            continue
        return


def _create(part: Path, target: Path) -> bool:
    """Renames a file unless the new name is taken. Reports whether the file was renamed."""
    try:
        os.link(part, target)
    except FileExistsError:
        return False
    except OSError:  # Links are not supported, so this is not atomic.
        if os.path.lexists(target):
            return False
        part.replace(target)
    return True


def _sync_folder(folder: Path) -> None:
    """Syncs a folder to disk, if folders can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
