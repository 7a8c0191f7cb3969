"""Private servers: each serves the processes that opened it, and ends with the last one. See docs/spec/private.md."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import errors, query
from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.owners import Owner

_PROGRAM = "penstock"
_LOG = "server.log"
_SOCKET = "server.sock"
_LOCAL_SOCKET = "local.sock"
_MAX_PARENT = 53  # the maximum bytes of the parent folder's path: a socket's path may have 103
_START_LIMIT = 60.0  # seconds within which the server must be ready
_END_LIMIT = 5.0  # seconds after which a server that does not end is killed
_LOG_TAIL = 4096  # the bytes of the log that an error shows
# The variables by which Go's gRPC finds proxies, and the variables that gRPC reads here, in its order.
_PROXIES = {
    "HTTPS_PROXY": ("grpc_proxy", "https_proxy", "http_proxy"),
    "NO_PROXY": ("no_grpc_proxy", "no_proxy"),
}
# The shell that starts a shared server, passes its standard input on, and exits with its status. Ray kills the children of a worker that
# ends. The server is not one of them, so it outlives the process that started it.
_OUTLIVING = ("/bin/sh", "-c", '{ "$@" <&3 3<&- & } 3<&0; exec <&-; wait "$!"', "penstock")
_SIGNALED = 128  # plus a signal's number: the status of a shell whose command was ended by the signal
_UNKNOWN_FLAG = re.compile(r"unknown flag: --([\w-]+)(?:\s+did you mean --([\w-]+)\?)?")


@dataclass(eq=False)
class _Running:
    """A running server, as seen by its owner.

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


class _Shared:
    """A client's use of a server that several processes share.

    Attributes:
        owner: the id of this process, which is one of the server's owners.
    """

    def __init__(self, of: Owner) -> None:
        self._of = of
        self.owner = of.process

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._of.server()

    def runs(self) -> bool:
        """Reports whether the server runs."""
        return self._of.runs()

    def exit_code(self) -> int | None:
        """Returns the exit code of a server that no longer runs; None if another process started it."""
        code = self._of.exit_code()
        return None if code is None else status(code)

    def end(self) -> None:
        """Ends the use. The last use of all processes ends the server."""
        self._of.leave()


class PrivateServer:
    """A server on a socket in a folder that only this user can enter.

    The server ends when this object is closed or unused, and when its owner ends in any way; a shared server ends after
    the last owner. In a process that unpickled it, this object only names the server.
    """

    def __init__(self, folder: Path, running: _Running | _Shared | None = None) -> None:
        self._folder = folder
        self._running = running
        self._finalizer = None if running is None else weakref.finalize(self, running.end)

    @property
    def address(self) -> str:
        """The location of the server."""
        return f"grpc+unix://{self._folder / _SOCKET}"

    @property
    def local_socket(self) -> str:
        """The path of the server's socket for mapped memory."""
        return str(self._folder / _LOCAL_SOCKET)

    def runs(self) -> bool:
        """Reports whether the server runs. In a process that did not open it, returns False."""
        return self._running is not None and self._running.owner == os.getpid() and self._running.runs()

    @property
    def pid(self) -> int:
        """The id of the server's process; 0 in a process that did not open it."""
        return 0 if self._running is None else self._running.pid

    def close(self) -> None:
        """Ends the server, unless another process or client uses it. Safe to call more than once."""
        if self._finalizer is not None:
            self._finalizer()

    def ended(self) -> str:
        """Returns a text that says how the server has ended; "" while it may run."""
        running = self._running
        if running is None or running.owner != os.getpid():
            return "" if (self._folder / _SOCKET).exists() else "its private server has ended with its owner"
        if running.runs():
            return ""
        said, code = log_tail(self._folder), running.exit_code()
        how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit status {code}"
        return f"its private server has ended{how}" + (f"; its log ends:\n{said}" if said else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return (PrivateServer, (self._folder,))


def start(
    config: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    program: str | os.PathLike[str] | None = None,
    *,
    share: bool = True,
) -> PrivateServer:
    """Starts a server for this process, or shares one that another process of this user started.

    Args:
        config: the config file.
        settings: server settings that override the file's.
        program: the program. If omitted, the one installed by this package's wheel, or else the one on the PATH.
        share: whether to share the server with processes that open the same file with the same settings.

    Raises:
        NotFound: there is no program.
        Invalid: the config file, a setting or the program's version is wrong.
        Unavailable: the server cannot start.
    """
    if not isinstance(config, str | os.PathLike):
        raise query.invalid("config", f"must be the path of a config file, not {type(config).__name__}")
    found = find_program(program)
    flags = [f"--{name.replace('_', '-')}={_text(value)}" for name, value in (settings or {}).items()]
    command = [str(found), "serve", "--config", os.fspath(config), *flags]
    subject = f"start a private server for {os.fspath(config)}"
    if share:
        from penstock.owners import folder_of  # needs locks that some systems lack

        folder = folder_of(_parent_folder(), config, found, flags)
        return _share(folder, lambda: _serve([*_OUTLIVING, *command], subject, folder))
    folder = _new_folder()
    try:
        return PrivateServer(folder, _serve(command, subject, folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def start_receiver(locations: Iterable[str], tls: Mapping[str, bytes | None]) -> PrivateServer:
    """Starts a receiver for this process, or shares one that another process of this user started.

    Args:
        locations: the locations of the servers that it may connect to.
        tls: certificates and key of connections to them, in PEM form: tls_roots, tls_chain and tls_key.

    Raises:
        NotFound: there is no program.
        Invalid: the program's version is wrong, or the receiver refuses an argument.
        Unavailable: the receiver cannot start.
    """
    from penstock.owners import folder_by

    found = find_program()
    # The text around certificates may have any encoding.
    given: dict[str, Any] = {
        name: text.decode(errors="replace") for name, text in tls.items() if text is not None
    }
    given["servers"] = sorted(locations)
    proxies = _proxies()
    folder = folder_by(_parent_folder(), found, ["receive", given, proxies])
    command, text = [*_OUTLIVING, str(found), "receive"], json.dumps(given).encode()
    environment = {name: value for name, value in os.environ.items() if name.upper() not in _PROXIES}
    return _share(
        folder, lambda: _serve(command, "start a receiver", folder, text, {**environment, **proxies})
    )


def _proxies() -> dict[str, str]:
    """Returns the variables with which a receiver uses the proxies that gRPC uses in this process."""
    found = {name: next(filter(None, map(os.environ.get, ours)), "") for name, ours in _PROXIES.items()}
    return {name: value for name, value in found.items() if value}


def _share(folder: Path, serve: Callable[[], _Running]) -> PrivateServer:
    """Shares the server of a folder, and starts the server unless it runs."""
    from penstock.owners import Owner

    with _process.lock:
        owner = _process.owners.setdefault(folder, Owner(folder))

    def launch(_: Path) -> subprocess.Popen[bytes]:
        running = serve()
        running.close_pipe()  # locks keep the server running instead
        return running.process

    owner.enter(launch)
    return PrivateServer(folder, _Shared(owner))


def _serve(
    command: list[str],
    subject: str,
    folder: Path,
    given: bytes | None = None,
    environment: Mapping[str, str] | None = None,
) -> _Running:
    """Starts a server in a folder, and returns when the server is ready.

    Args:
        command: the command, without the folder.
        subject: the beginning of an error.
        folder: the folder.
        given: the whole standard input of the command; None for a pipe that keeps the server running.
        environment: the environment of the command; None for that of this process.
    """
    running: _Running | None = None
    try:
        running, stdout = _launch([*command, "--private", str(folder)], folder, given, environment)
        with os.fdopen(stdout, "rb") as out, selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            said = selector.select(_START_LIMIT)
            if not said or not out.readline():
                raise _not_started(subject, running, timed_out=not said)
    except BaseException:
        if running is not None:
            running.kill()
        raise
    return running


def log_tail(folder: Path) -> str:
    """Returns the end of a server's log."""
    try:
        text = (folder / _LOG).read_bytes()
    except OSError:
        return ""
    return text[-_LOG_TAIL:].decode(errors="replace").strip()


def status(code: int) -> int:
    """Returns the exit code of a server from that of the process that was started, which may be a shell that waited for the server."""
    return _SIGNALED - code if code > _SIGNALED else code


def _launch(
    command: list[str], folder: Path, given: bytes | None, environment: Mapping[str, str] | None
) -> tuple[_Running, int]:
    """Starts the command. Returns the server and its standard output."""
    with _process.lock, contextlib.ExitStack() as opened:
        theirs, pipe = _input(given)
        opened.callback(os.close, theirs)
        stdout, output = os.pipe()
        opened.callback(os.close, output)
        log = opened.enter_context((folder / _LOG).open("wb"))
        try:
            # A separate session keeps interrupts from the terminal away from the server.
            process = subprocess.Popen(
                command, stdin=theirs, stdout=output, stderr=log, start_new_session=True, env=environment
            )
        except OSError as e:
            if pipe >= 0:
                os.close(pipe)
            os.close(stdout)
            raise errors.Unavailable(f"start {command[0]}: {e.strerror or e}") from e
        running = _Running(os.getpid(), process, pipe, folder)
        _process.running.add(running)
        return running, stdout


def _input(given: bytes | None) -> tuple[int, int]:
    """Returns the standard input of a command, and this process's end of it; -1 if there is none."""
    if given is None:
        return os.pipe()
    file = os.memfd_create(
        "penstock-input", os.MFD_CLOEXEC
    )  # it may contain a key, so it is not written to disk
    with os.fdopen(os.dup(file), "wb") as content:
        content.write(given)
    os.lseek(file, 0, os.SEEK_SET)
    return file, -1


def _not_started(subject: str, running: _Running, *, timed_out: bool) -> errors.Error:
    """Returns the error for a server that did not print its address, from its log."""
    if timed_out:
        said = log_tail(running.folder)
        return errors.Unavailable(
            f"{subject}: it has not begun to serve within {_START_LIMIT:g} seconds"
            + (f": {said}" if said else "")
        )
    code = status(running.process.wait())
    # The log ends with the error, followed by remedies on lines that begin with an arrow.
    _, _, said = ("\n" + log_tail(running.folder)).rpartition(f"\n{_PROGRAM}: ")
    message, *remedies = said.split("\n  → ")
    if unknown := _UNKNOWN_FLAG.match(message):  # a setting, passed as a flag
        near = "" if unknown[2] is None else f"; did you mean {unknown[2].replace('-', '_')!r}?"
        message = f"settings has no {unknown[1].replace('-', '_')!r}{near}"
    kind = errors.Unavailable if code < 0 else errors.Invalid
    return kind(f"{subject}: {message or f'it ended with status {code}'}", remedy="; ".join(remedies))


def _new_folder() -> Path:
    """Creates a folder for this user only, with a path short enough for sockets."""
    return Path(tempfile.mkdtemp(prefix="penstock-", dir=_parent_folder()))


def _parent_folder() -> str:
    """Returns the temporary folder in which to create the servers' folders.

    Raises:
        Invalid: no temporary folder has a path short enough.
    """
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) <= _MAX_PARENT and Path(parent).is_dir():
            return parent
    raise errors.Invalid(
        f"start a private server: the path of the temporary folder {tempfile.gettempdir()} is too long for a socket",
        remedy="set TMPDIR to a shorter one",
    )


def _text(value: Any) -> str:
    """Formats a setting's value as the value of a flag."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def find_program(given: str | os.PathLike[str] | None = None) -> Path:
    """Returns the program to start.

    Args:
        given: the program's path or name. If omitted, the one installed by this package's wheel, or else the one on the
            PATH.

    Raises:
        NotFound: there is no program.
        Invalid: the program's version differs from this package's.
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
    """Returns the program installed by this package's wheel; None if there is none."""
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
        self.owners: dict[Path, Owner] = {}  # by folder

    def after_in_child(self) -> None:
        for running in list(self.running):
            running.leave_to_parent()
        self.running.clear()
        self.owners.clear()  # a forked process owns no servers
        self.lock.release()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.lock.acquire,
        after_in_parent=_process.lock.release,
        after_in_child=_process.after_in_child,
    )
