"""Files that are complete or absent."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from penstock import errors

_NEW = 0o666  # the umask takes bits away
_PRIVATE = 0o600  # until a file gets the permissions of the one it replaces


def write_atomically(file: Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Writes a file under a temporary name and renames it when it is complete and on disk.

    The new file keeps the owner and permissions of the one it replaces. A symbolic link is kept: the file that
    it points to is replaced or created. A device or FIFO is kept too, and written to, and so is a file that the path
    names as an open one of this process, as /dev/stdout does.

    Args:
        file: the path; its folder must exist.
        write: called with the open file; writes to it.
        replace: whether to replace an existing file.

    Returns:
        Whether the file was written; False if it existed and `replace` is False.

    Raises:
        Invalid: the path names a folder or a socket.
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
    target = Path(os.path.realpath(file))
    if old is not None and stat.S_ISREG(old.st_mode) and (opened := _descriptor(file)) is not None:
        with os.fdopen(os.dup(opened), "wb") as out:
            write(out)
        return True
    if old is not None and not _replaceable(target, old):
        _write_into(file, old, write)
        return True
    # The name does not include the target's, which may already have the maximum length.
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
    """The status of the file that a path names, following links; None if there is none."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None


_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(?P<process>\d+)(/task/\d+)?/fd")
_MAX_LINKS = 40  # in a chain, as on Linux


def _descriptor(file: Path) -> int | None:
    """The descriptor of this process that a path names, following links; None if it names none."""
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(file.parent)
        inside = _DESCRIPTORS.fullmatch(folder)
        if inside and file.name.isdecimal() and inside["process"] in (None, str(os.getpid())):
            return int(file.name)
        file = Path(folder, file.name)
        if not file.is_symlink():
            return None
        file = Path(folder, file.readlink())
    return None


def _replaceable(target: Path, old: os.stat_result) -> bool:
    """Whether it is a regular file that still has this name; a path in /proc may name one that has not."""
    at = _status(target)
    return stat.S_ISREG(old.st_mode) and at is not None and os.path.samestat(at, old)


def _write_into(file: Path, old: os.stat_result, write: Callable[[BinaryIO], object]) -> None:
    """Writes to an existing device or FIFO. Opening a FIFO waits for a reader."""
    if stat.S_ISDIR(old.st_mode) or stat.S_ISSOCK(old.st_mode):
        kind = "folder" if stat.S_ISDIR(old.st_mode) else "socket"
        raise errors.Invalid(f"{file} is a {kind}, and cannot be written", remedy="name a file")
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC), "wb") as out:  # not created, if it is gone by now
        write(out)


def _keep_owner(part: Path, old: os.stat_result) -> None:
    """Gives a file the owner and group of the one it replaces, or only the group, as far as permitted."""
    if not hasattr(os, "chown"):
        return
    for owner in (old.st_uid, -1):
        try:
            os.chown(part, owner, old.st_gid)
        except OSError:
            continue
        return


def _create(part: Path, target: Path) -> bool:
    """Renames a file unless the new name is taken. Reports whether it did."""
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
