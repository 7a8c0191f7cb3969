"""Private servers: each serves the process that started it, and ends with it. See docs/spec/private.md."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import select
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import errors, query
from penstock.version import __version__

_PROGRAM = "penstock"
_LOG = "server.log"
_SOCKET = "server.sock"
_MAX_FOLDER = 85  # bytes of its path: that of a socket in it may have 103
_START_LIMIT = 60.0  # seconds until the server has its socket
_END_LIMIT = 5.0  # seconds until a server that should end is killed
_LOG_TAIL = 4096  # bytes that an error shows


@dataclass(eq=False)
class _Running:
    """What its owner has of a server that runs.

    Attributes:
        owner: the process that started it.
        process: the server.
        pipe: the end of the pipe that keeps it running; -1 if it is closed.
        folder: its sockets, its log and what it spills.
    """

    owner: int
    process: subprocess.Popen[bytes]
    pipe: int
    folder: Path

    def end(self) -> None:
        """Ends the server and removes its folder, in the process that started it. Safe to call more than once."""
        if self.owner != os.getpid():
            return
        self.close_pipe()
        try:
            self.process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close_pipe(self) -> None:
        """Closes this process's end of the pipe."""
        pipe, self.pipe = self.pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def leave_to_parent(self) -> None:
        """In a forked child: closes the pipe, which would keep the server running after its owner."""
        self.close_pipe()
        self.process.returncode = 0  # it is no child of this process


class PrivateServer:
    """A server on a socket in a folder that only this user can enter.

    It ends when it is closed, when nothing uses it any more, and when its owner ends in any way. In another process, to
    which it was pickled, it only names the server.
    """

    def __init__(self, folder: Path, running: _Running | None = None) -> None:
        self._folder = folder
        self._running = running
        self._finalizer = None if running is None else weakref.finalize(self, running.end)

    @property
    def address(self) -> str:
        """The location of the server."""
        return f"grpc+unix://{self._folder / _SOCKET}"

    @property
    def pid(self) -> int:
        """Its process; 0 where it was not started."""
        return 0 if self._running is None else self._running.process.pid

    def close(self) -> None:
        """Ends the server, if this process has started it. Safe to call more than once."""
        if self._finalizer is not None:
            self._finalizer()

    def ended(self) -> str:
        """Says that the server has ended, and why; "" while it may run."""
        running = self._running
        if running is None or running.owner != os.getpid():
            return "" if (self._folder / _SOCKET).exists() else "its private server has ended with its owner"
        code = running.process.poll()
        if code is None:
            return ""
        said = log_tail(self._folder)
        how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        return f"its private server has ended {how}" + (f"; its log ends:\n{said}" if said else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return (PrivateServer, (self._folder,))


def start(
    config: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    program: str | os.PathLike[str] | None = None,
) -> PrivateServer:
    """Starts a server for this process.

    Args:
        config: the config file.
        settings: settings of the server that override the file's.
        program: the program; the one of this package's wheel if omitted, or else the one on the PATH.

    Raises:
        NotFound: there is no program.
        Invalid: the config file, a setting or the program's version.
        Unavailable: the server cannot start.
    """
    if not isinstance(config, str | os.PathLike):
        raise query.invalid("config", f"must be the path of a config file, not {type(config).__name__}")
    command = [str(find_program(program)), "serve", "--config", os.fspath(config)]
    command += [f"--{name.replace('_', '-')}={_text(value)}" for name, value in (settings or {}).items()]
    folder = _new_folder()
    running: _Running | None = None
    try:
        running, stdout = _launch([*command, "--private", str(folder)], folder)
        with os.fdopen(stdout, "rb") as out:
            said, _, _ = select.select([out], [], [], _START_LIMIT)
            if not said or not out.readline():
                raise _not_started(config, running, timed_out=not said)
    except BaseException:
        if running is not None:
            running.end()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return PrivateServer(folder, running)


def log_tail(folder: Path) -> str:
    """The last lines of a server's log."""
    try:
        text = (folder / _LOG).read_bytes()
    except OSError:
        return ""
    return text[-_LOG_TAIL:].decode(errors="replace").strip()


def _launch(command: list[str], folder: Path) -> tuple[_Running, int]:
    """Starts the command. Returns the server, and its standard output."""
    with _process.lock, contextlib.ExitStack() as opened:
        theirs, pipe = os.pipe()
        opened.callback(os.close, theirs)
        stdout, output = os.pipe()
        opened.callback(os.close, output)
        log = opened.enter_context((folder / _LOG).open("wb"))
        try:
            # In a session of its own: an interrupt from the terminal is for its owner.
            process = subprocess.Popen(
                command, stdin=theirs, stdout=output, stderr=log, start_new_session=True
            )
        except OSError as e:
            os.close(pipe)
            os.close(stdout)
            raise errors.Unavailable(f"start {command[0]}: {e.strerror or e}") from e
        running = _Running(os.getpid(), process, pipe, folder)
        _process.running.add(running)
        return running, stdout


def _not_started(config: str | os.PathLike[str], running: _Running, *, timed_out: bool) -> errors.Error:
    """The error of a server that did not print its address: what it printed last."""
    subject = f"start a private server for {os.fspath(config)}"
    if timed_out:
        said = log_tail(running.folder)
        return errors.Unavailable(
            f"{subject}: it has not begun to serve within {_START_LIMIT:g} seconds"
            + (f": {said}" if said else "")
        )
    code = running.process.wait()
    # The program ends with the error, and lines that begin with an arrow say what to do.
    _, _, said = ("\n" + log_tail(running.folder)).rpartition(f"\n{_PROGRAM}: ")
    message, *remedies = said.split("\n  → ")
    kind = errors.Unavailable if code < 0 else errors.Invalid
    return kind(f"{subject}: {message or f'it ended with status {code}'}", remedy="; ".join(remedies))


def _new_folder() -> Path:
    """Makes a folder for this user alone, whose path is short enough for sockets."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) + len("/penstock-xxxxxxxx") <= _MAX_FOLDER and Path(parent).is_dir():
            return Path(tempfile.mkdtemp(prefix="penstock-", dir=parent))
    raise errors.Invalid(
        f"start a private server: the path of the temporary folder {tempfile.gettempdir()} is too long for a socket",
        remedy="set TMPDIR to a shorter one",
    )


def _text(value: Any) -> str:
    """A setting's value as a flag has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def find_program(given: str | os.PathLike[str] | None = None) -> Path:
    """The program to start.

    Args:
        given: its path or name; the one of this package's wheel if omitted, or else the one on the PATH.

    Raises:
        NotFound: there is none.
        Invalid: it is of another version than this package.
    """
    if given is None and (installed := _installed()) is not None:
        return installed
    path = shutil.which(os.fspath(given if given is not None else _PROGRAM))
    if path is None:
        raise errors.NotFound(
            f"there is no program {os.fspath(given)}"
            if given is not None
            else "there is no program penstock",
            remedy="install a wheel of this package that has it, add its folder to the PATH, or connect to a server with penstock.connect",
        )
    _check_version(path)
    return Path(path)


def _installed() -> Path | None:
    """The program that this package's wheel has installed; None if the package comes without one."""
    try:
        files = importlib.metadata.files("penstock") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == _PROGRAM and file.parent.name == Path(sysconfig.get_path("scripts")).name:
            found = Path(os.fspath(file.locate()))
            return found.resolve() if found.exists() else None
    return None


def _check_version(path: str) -> None:
    try:
        said = subprocess.run([path, "version"], capture_output=True, timeout=_START_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise errors.Unavailable(f"start {path}: {e}") from e
    name, _, version = said.stdout.decode(errors="replace").partition("\n")[0].partition(" ")
    if name != _PROGRAM:
        raise errors.Invalid(
            f"{path} is not Penstock's server: `{path} version` does not print its version",
            remedy="put the folder of Penstock's own first into the PATH, or pass program=",
        )
    if version != __version__:
        raise errors.Invalid(
            f"{path} is penstock {version}, and this package is {__version__}",
            remedy="install the same version of both",
        )


class _Process:
    """The private servers of this process, and its handling of forks."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.running: weakref.WeakSet[_Running] = weakref.WeakSet()

    def after_in_child(self) -> None:
        for running in list(self.running):
            running.leave_to_parent()
        self.running.clear()
        self.lock.release()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.lock.acquire,
        after_in_parent=_process.lock.release,
        after_in_child=_process.after_in_child,
    )
