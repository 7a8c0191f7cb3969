"""Private servers: each serves the processes that opened it, and ends with the last one. See docs/spec/private.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import errors, query
from penstock.program import find_program
from penstock.serverprocess import OUTLIVING, ServerProcess, log_tail, serve, started_in, status_of

if TYPE_CHECKING:
    from penstock.owners import Owner

_SOCKET = "server.sock"
# The name of a private server's folder has the user, and a digest or a random text. No other server has such an address.
_FOLDER = re.compile(r"penstock-(\d+)-([0-9a-f]{16}|[0-9a-z_]{8})")
_LOCAL_SOCKET = "local.sock"
_MAX_PARENT = 53  # the maximum bytes of the parent folder's path: a socket's path may have 103
# The variables by which Go's gRPC finds proxies, and the variables that gRPC reads here, in its order.
_PROXIES = {
    "HTTPS_PROXY": ("grpc_proxy", "https_proxy", "http_proxy"),
    "NO_PROXY": ("no_grpc_proxy", "no_proxy"),
}


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
        return None if code is None else status_of(code)

    def end(self) -> None:
        """Ends the use. The last use of all processes ends the server."""
        self._of.leave()


class PrivateServer:
    """A server on a socket in a folder that only this user can enter.

    The server ends when this object is closed or unused, and when its owner ends in any way; a shared server ends after
    the last owner. An object without `running` only names the server, in any process.
    """

    def __init__(self, folder: Path, running: ServerProcess | _Shared | None = None) -> None:
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
        running, code = self._running or _opened(self._folder), None
        if running is not None and running.owner == os.getpid():
            if running.runs():
                return ""
            code = running.exit_code()
        elif not self._folder.exists():
            return "its private server has ended with its owner"
        elif _accepts(self._folder / _SOCKET):
            return ""
        said = log_tail(self._folder)
        how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit status {code}"
        return f"its private server has ended{how}" + (f"; its log ends:\n{said}" if said else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return (PrivateServer, (self._folder,))


def named(locations: Sequence[str]) -> PrivateServer | None:
    """Returns the private server of this user that locations name; None for other servers."""
    prefix, suffix = "grpc+unix://", f"/{_SOCKET}"
    if len(locations) != 1 or not (locations[0].startswith(prefix) and locations[0].endswith(suffix)):
        return None
    folder = Path(locations[0].removeprefix(prefix).removesuffix(suffix))
    name = _FOLDER.fullmatch(folder.name)
    return None if name is None or int(name[1]) != os.getuid() else PrivateServer(folder)


def _accepts(path: Path) -> bool:
    """Reports whether a process accepts connections on a socket, and also if this cannot be found out. Does not wait."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # too many connections wait
            return True
    return True


def _opened(folder: Path) -> ServerProcess | _Shared | None:
    """Returns the server of a folder if this process has opened it, and has not closed it."""
    from penstock.owners import owner_of

    owner = owner_of(folder)
    return _Shared(owner) if owner.is_in_use else started_in(folder)


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
        return _share(folder, lambda: serve([*OUTLIVING, *command], subject, folder))
    folder = _new_folder()
    try:
        return PrivateServer(folder, serve(command, subject, folder))
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
    command, text = [*OUTLIVING, str(found), "receive"], json.dumps(given).encode()
    environment = {name: value for name, value in os.environ.items() if name.upper() not in _PROXIES}
    return _share(
        folder, lambda: serve(command, "start a receiver", folder, text, {**environment, **proxies})
    )


def _proxies() -> dict[str, str]:
    """Returns the variables with which a receiver uses the proxies that gRPC uses in this process."""
    found = {name: next(filter(None, map(os.environ.get, ours)), "") for name, ours in _PROXIES.items()}
    return {name: value for name, value in found.items() if value}


def _share(folder: Path, start_server: Callable[[], ServerProcess]) -> PrivateServer:
    """Shares the server of a folder, and starts the server unless it runs."""
    from penstock.owners import owner_of

    def launch(_: Path) -> subprocess.Popen[bytes]:
        running = start_server()
        running.close_pipe()  # locks keep the server running instead
        return running.process

    owner = owner_of(folder)
    owner.enter(launch)
    return PrivateServer(folder, _Shared(owner))


def _new_folder() -> Path:
    """Creates a folder for this user only, with a path short enough for sockets."""
    return Path(tempfile.mkdtemp(prefix=f"penstock-{os.getuid()}-", dir=_parent_folder()))


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
