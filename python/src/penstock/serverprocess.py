"""The process of a private server: starts it, waits until it is ready, and ends it."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import errors, program

_LOG = "server.log"
_LOG_TAIL = 4096  # the bytes of the log that an error shows
_START_LIMIT = 60.0  # seconds within which the server must be ready
_END_LIMIT = 5.0  # seconds after which a server that does not end is killed
_SIGNALED = 128  # plus a signal's number: the status of a shell whose command was ended by the signal
_UNKNOWN_FLAG = re.compile(r"unknown flag: --([\w-]+)(?:\s+did you mean --([\w-]+)\?)?")

OUTLIVING = ("/bin/sh", "-c", '{ "$@" <&3 3<&- & } 3<&0; exec <&-; wait "$!"', "penstock")
"""The beginning of the command of a shared server: a shell that starts the server, passes its standard input on, and
exits with its status. Ray kills the children of a worker that ends. The server is not one of them, so it outlives the
process that started it."""


@dataclass(eq=False)
class ServerProcess:
    """A running server, as seen by the process that started it.

    Attributes:
        owner: the id of the process that started it.
        process: the server's process, or that of the shell whose child is the server.
        pipe: this process's end of the pipe that keeps the server running; -1 if it is closed, or if there is none.
        folder: the folder of its socket, log and spilled data.
    """

    owner: int
    process: subprocess.Popen[bytes]
    pipe: int
    folder: Path

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    def runs(self) -> bool:
        """Reports whether the server runs."""
        return self.process.poll() is None

    def exit_code(self) -> int | None:
        """Returns the server's exit code; None if it runs."""
        return self.process.poll()

    def end(self) -> None:
        """Ends the server and removes its folder, in the process that started it. Safe to call more than once."""
        if self.owner != os.getpid():
            return
        self.close_pipe()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_LIMIT)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """Kills the server, if it runs."""
        self.close_pipe()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # the shell and the server
            self.process.wait()

    def close_pipe(self) -> None:
        """Closes this process's end of the pipe."""
        pipe, self.pipe = self.pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def leave_to_parent(self) -> None:
        """In a forked child: closes the pipe, which would otherwise keep the server running after its owner ends."""
        self.close_pipe()
        self.process.returncode = 0  # the server is not a child of this process


def serve(
    command: list[str],
    subject: str,
    folder: Path,
    given: bytes | None = None,
    environment: Mapping[str, str] | None = None,
) -> ServerProcess:
    """Starts a server in a folder, and returns when the server is ready.

    Args:
        command: the command, without the folder.
        subject: the beginning of an error.
        folder: the folder.
        given: the whole standard input of the command; None for a pipe that keeps the server running.
        environment: the environment of the command; None for that of this process.

    Raises:
        Invalid: the server refuses its configuration.
        Unavailable: the server does not start.
    """
    running: ServerProcess | None = None
    try:
        running, stdout = _launch([*command, "--private", str(folder)], folder, given, environment)
        with os.fdopen(stdout, "rb") as out, selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            said = selector.select(_START_LIMIT)
            if not said or not out.readline():
                raise _not_started(subject, running, timed_out=not said)
    except BaseException as e:
        if running is not None:
            running.kill()
        if isinstance(e, OSError):  # such as too many open files
            raise errors.Unavailable(f"{subject}: {e}") from e
        raise
    return running


def status_of(code: int) -> int:
    """Returns the exit code of a server from that of its process, which may be a shell that waited for the server."""
    return _SIGNALED - code if code > _SIGNALED else code


def started_in(folder: Path) -> ServerProcess | None:
    """Returns the server that this process has started in a folder and keeps running; None if there is none."""
    with _forks.lock:
        return next((one for one in _forks.running if one.folder == folder and one.pipe >= 0), None)


def log_tail(folder: Path) -> str:
    """Returns the end of a server's log."""
    try:
        text = (folder / _LOG).read_bytes()
    except OSError:
        return ""
    return text[-_LOG_TAIL:].decode(errors="replace").strip()


def _launch(
    command: list[str], folder: Path, given: bytes | None, environment: Mapping[str, str] | None
) -> tuple[ServerProcess, int]:
    """Starts the command. Returns the server and its standard output."""
    with _forks.lock, contextlib.ExitStack() as opened:
        theirs, pipe = _input(given)
        opened.callback(os.close, theirs)
        with contextlib.ExitStack() as ours:  # closed unless the command starts
            if pipe >= 0:
                ours.callback(os.close, pipe)
            stdout, output = os.pipe()
            ours.callback(os.close, stdout)
            opened.callback(os.close, output)
            log = opened.enter_context((folder / _LOG).open("wb"))
            # A separate session keeps interrupts from the terminal away from the server.
            process = subprocess.Popen(
                command, stdin=theirs, stdout=output, stderr=log, start_new_session=True, env=environment
            )
            ours.pop_all()
        running = ServerProcess(os.getpid(), process, pipe, folder)
        _forks.running.add(running)
        return running, stdout


def _input(given: bytes | None) -> tuple[int, int]:
    """Returns the standard input of a command, and this process's end of it; -1 if there is none."""
    if given is None:
        return os.pipe()
    # The input may contain a key, so it is not written to disk.
    file = os.memfd_create("penstock-input", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as content:
        content.write(given)
    os.lseek(file, 0, os.SEEK_SET)
    return file, -1


def _not_started(subject: str, running: ServerProcess, *, timed_out: bool) -> errors.Error:
    """Returns the error for a server that did not print its address, from its log."""
    if timed_out:
        said = log_tail(running.folder)
        return errors.Unavailable(
            f"{subject}: it has not begun to serve within {_START_LIMIT:g} seconds"
            + (f": {said}" if said else "")
        )
    code = status_of(running.process.wait())
    # The log ends with the error, followed by remedies on lines that begin with an arrow.
    _, _, said = ("\n" + log_tail(running.folder)).rpartition(f"\n{program.NAME}: ")
    message, *remedies = said.split("\n  → ")
    if unknown := _UNKNOWN_FLAG.match(message):  # a setting, passed as a flag
        near = "" if unknown[2] is None else f"; did you mean {unknown[2].replace('-', '_')!r}?"
        message = f"settings has no {unknown[1].replace('-', '_')!r}{near}"
    kind = errors.Unavailable if code < 0 else errors.Invalid
    return kind(f"{subject}: {message or f'it ended with status {code}'}", remedy="; ".join(remedies))


class _Forks:
    """The servers that this process has started, which a forked child leaves to it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a fork waits until a server that starts has its pipe
        self.running: weakref.WeakSet[ServerProcess] = weakref.WeakSet()

    def after_in_child(self) -> None:
        for running in list(self.running):
            running.leave_to_parent()
        self.running.clear()
        self.lock.release()


_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.lock.acquire,
        after_in_parent=_forks.lock.release,
        after_in_child=_forks.after_in_child,
    )
