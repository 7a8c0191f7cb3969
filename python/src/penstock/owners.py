"""Private servers that are shared by processes of one user. See docs/spec/private.md.

The folder of such a server has a file on which its owners hold record locks. The kernel releases a process's locks when
the process ends in any way, and forked processes do not inherit them. The server ends when no owner holds a lock. A
process must not open the file twice at a time, because closing either descriptor releases all of the process's locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock import errors

_OWNERS = "owners"

# The locked bytes of the file, as in cmd/penstock/owners_unix.go.
_DOOR = 0
_FIRST = 1
_COUNT = 1 << 20
_SERVER = 1 << 30

_POLL = 0.02  # seconds between two checks of other processes' locks
_END_LIMIT = 5.0  # seconds after which a server that does not end is killed
_START_LIMIT = 120.0  # seconds for which a process waits for another one

# struct flock of 64-bit systems: its format, and the positions of start, length, process and type.
_FLOCK, _AT = ("qqihh", (0, 1, 2, 3)) if sys.platform == "darwin" else ("hhqqi", (2, 3, 4, 0))

# The environment variables that a server reads, besides the variables that its config file names.
_ENVIRONMENT = ("AWS_", "GO", "PENSTOCK_", "SSL_CERT_")
_VARIABLES = ("HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

Launch = Callable[[Path], "subprocess.Popen[bytes]"]
"""Starts the server in a folder, and returns when the server is ready."""


def folder_of(parent: str, config: str | os.PathLike[str], program: Path, flags: Sequence[str]) -> Path:
    """Returns the folder of a shared server, which depends on the config file, program, settings and environment.

    Args:
        parent: the parent folder.
        config: the config file.
        program: the program.
        flags: the settings; relative paths in them are relative to the current folder.
    """
    text = ""
    with contextlib.suppress(OSError):
        text = Path(config).read_bytes().decode(errors="replace")
    parts = [os.path.realpath(config), text, (sorted(flags), str(Path.cwd())) if flags else ()]
    return folder_by(parent, program, parts, text)


def folder_by(parent: str, program: Path, parts: Sequence[object], text: str = "") -> Path:
    """Returns the folder of a process that is shared if its program, environment and other inputs are equal.

    Args:
        parent: the parent folder.
        program: the program.
        parts: the other inputs, which can be written as JSON.
        text: a text that names further variables of the environment, as ${NAME}.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_ENVIRONMENT) or name.upper() in _VARIABLES or f"${{{name}}}" in text
    }
    built = program.stat()
    all_parts = [str(program), built.st_mtime_ns, built.st_size, environment, *parts]
    digest = hashlib.sha256(json.dumps(all_parts, sort_keys=True).encode()).hexdigest()
    return Path(parent, f"penstock-{os.getuid()}-{digest[:16]}")


class Owner:
    """This process as an owner of a shared server. The clients of the process share one Owner per folder.

    Attributes:
        folder: the server's folder.
        process: the id of the owning process; in a forked process, `leave` does nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = os.getpid()
        # Guards the fields below. In the thread that holds it, the garbage collector may end another use.
        self._lock = threading.RLock()
        self._uses = 0
        self._file = -1
        self._byte = 0
        self._server: subprocess.Popen[bytes] | None = None  # set if this process started it

    def enter(self, launch: Launch) -> None:
        """Adds a use of the server, and starts the server unless it runs.

        Raises:
            Invalid: other users can access the folder, or the server does not start.
            Unavailable: the server does not start in time.
        """
        with self._lock:
            self._uses += 1
            try:
                self._enter(launch)
            except BaseException:
                self._end_use()
                raise

    def leave(self) -> None:
        """Ends a use of the server. The last use of all processes waits until the server has ended and its folder is removed."""
        if self.process != os.getpid():
            return
        with self._lock:
            self._end_use()

    @property
    def is_in_use(self) -> bool:
        """Whether this process uses the server."""
        return self._uses > 0

    def server(self) -> int:
        """Returns the server's process id; 0 if it does not run."""
        return 0 if self._file < 0 else (self._conflict(_SERVER, 1) or 0)

    def runs(self) -> bool:
        """Reports whether the server runs."""
        return self._file >= 0 and self._is_held(_SERVER)

    def exit_code(self) -> int | None:
        """Returns the exit code of a server that no longer runs; None if another process started it.

        The kernel releases the locks of an ending process before the process has an exit code. So this waits for it.
        """
        started = self._server
        if started is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return started.wait(_END_LIMIT)
        return None

    def _end_use(self) -> None:
        self._uses -= 1
        if self._uses == 0:
            self._leave()

    def _enter(self, launch: Launch) -> None:
        deadline = time.monotonic() + _START_LIMIT
        while not self._try_enter(launch):
            if time.monotonic() > deadline:
                raise errors.Unavailable(
                    f"start a private server: another process has not started one in {self.folder} within {_START_LIMIT:g} seconds",
                    remedy="end that process, or open a server of your own with share=False",
                )
            time.sleep(_POLL)

    def _try_enter(self, launch: Launch) -> bool:
        """Tries once. Returns False while another process starts the server or ends it."""
        if self._file < 0:
            try:
                self._open()
            except FileNotFoundError:  # the folder was just removed
                return False
        if not self._take(_DOOR):
            return False
        try:
            if not self._is_current():  # the folder was removed while this process waited
                self._close()
                return False
            if not self._byte:
                self._byte = next(byte for byte in range(_FIRST, _FIRST + _COUNT) if self._take(byte))
            if self._is_held(_SERVER):
                # Without the socket, the server is still starting, for an owner that has left.
                return (self.folder / "server.sock").exists()
            self._clear()
            try:
                self._server = launch(self.folder)
            except errors.Error:
                if self._is_held(_SERVER):  # a server of an owner that has left is starting
                    return False
                raise
            return True
        finally:
            if self._file >= 0:
                self._release(_DOOR)

    def _open(self) -> None:
        """Opens the file, and creates the file and its folder if they do not exist."""
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(0o700)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise errors.Invalid(
                f"start a private server: {self.folder} is not a folder that only this user can enter",
                remedy="set TMPDIR to a folder of your own, or pass share=False",
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.folder / _OWNERS, flags, 0o600)

    def _is_current(self) -> bool:
        """Reports whether the open file is still the one in the folder."""
        try:
            return os.path.samestat(os.fstat(self._file), (self.folder / _OWNERS).lstat())
        except FileNotFoundError:
            return False

    def _clear(self) -> None:
        """Removes the files left by a killed server."""
        for left in self.folder.iterdir():
            if left.name == _OWNERS:
                continue
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()

    def _leave(self) -> None:
        """Releases the locks. If no other process is an owner, waits until the server has ended."""
        if self._file < 0:
            return
        if self._byte:
            self._release(self._byte)
        began = time.monotonic()
        while self._is_last():
            if not self._is_held(_SERVER) and self._take(_DOOR):
                self._remove()
                break
            late = time.monotonic() - began
            if late > 2 * _END_LIMIT:
                break  # a suspended process holds the door lock
            if late > _END_LIMIT:
                self._kill()
            time.sleep(_POLL)
        left, self._server = self._server, None
        if left is not None and self._is_last():
            left.wait()
        elif left is not None:
            left.returncode = 0  # another owner uses or has ended it
        self._close()

    def _is_last(self) -> bool:
        """Reports whether the folder still exists and no other process is an owner."""
        return self._is_current() and not self._is_held(_FIRST, _COUNT)

    def _kill(self) -> None:
        """Kills the server."""
        server = self.server()
        if server > 1:  # it may be in another PID namespace
            with contextlib.suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)

    def _remove(self) -> None:
        """Removes the folder if there is no other owner. Renames it first, because another process may recreate it."""
        if not self._is_last():
            return
        gone = self.folder.with_name(f"{self.folder.name}-{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _take(self, byte: int) -> bool:
        """Locks a byte unless another process holds the lock. Reports whether it did."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _release(self, byte: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def _is_held(self, start: int, count: int = 1) -> bool:
        """Reports whether another process has locked one of these bytes."""
        return self._conflict(start, count) is not None

    def _conflict(self, start: int, count: int) -> int | None:
        """Returns the id of a process that has locked one of these bytes; None if there is none."""
        values = [0] * 5
        for at, value in zip(_AT, (start, count, 0, fcntl.F_WRLCK), strict=True):
            values[at] = value
        found = struct.unpack(_FLOCK, fcntl.fcntl(self._file, fcntl.F_GETLK, struct.pack(_FLOCK, *values)))
        return None if found[_AT[3]] == fcntl.F_UNLCK else int(found[_AT[2]])

    def _close(self) -> None:
        file, self._file, self._byte = self._file, -1, 0
        if file >= 0:
            os.close(file)


class _Owners:
    """This process as an owner of shared servers, by folder. A forked process owns none."""

    def __init__(self) -> None:
        self.after_in_child()

    def of(self, folder: Path) -> Owner:
        with self._lock:
            return self._found.setdefault(folder, Owner(folder))

    def after_in_child(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Path, Owner] = {}


_owners = _Owners()
os.register_at_fork(after_in_child=_owners.after_in_child)


def owner_of(folder: Path) -> Owner:
    """Returns this process as an owner of the server in a folder."""
    return _owners.of(folder)
