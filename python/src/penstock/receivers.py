"""Receivers: processes that hold the connections of this host to other servers. See docs/spec/receiver.md.

A receiver makes the tensors of streams that another host serves, and passes them to the trainers of this user on this
host as a server on this host does. All processes that read from the same servers with the same certificates share one
receiver, which ends with the last of these processes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Hashable
from pathlib import Path

from penstock import errors
from penstock.addresses import Address
from penstock.channel import Channel
from penstock.local import Session
from penstock.private import PrivateServer, start_receiver
from penstock.settings import Settings

# Seconds for which a receiver may accept no session, or may need to end, and between two tries.
_LIMIT = 2.0
_POLL = 0.05


def session(channel: Channel, plan: bytes) -> tuple[Channel, Session, int]:
    """Begins a session of a receiver, for a stream of blocks.

    Args:
        channel: the connection to the server.
        plan: the tensor plan of the blocks.

    Returns:
        The connection to the receiver that reads from this server, the session, and the receiver's process.

    Raises:
        Error: there can be no receiver; the stream can be read from the server.
    """
    deadline = time.monotonic() + _LIMIT
    while True:
        receiver = _process.find(channel.settings)
        process = receiver.pid
        found = Session.open(receiver.local_socket, plan)
        if found is not None:
            break
        if time.monotonic() > deadline:
            raise errors.Unavailable("the receiver accepted no session")
        time.sleep(_POLL)  # it may have been killed, and not have ended yet
    if not found.takes_blocks:
        raise errors.Invalid("the receiver makes no blocks that this package reads")
    return channel.through(Address(receiver.address)), found, process


def is_gone(settings: Settings, process: int, *, wait: bool) -> bool:
    """Reports whether a receiver that this process has used does not run anymore. Another one may have taken its place.

    Args:
        settings: the settings of the connection.
        process: the receiver's process.
        wait: whether to wait for a receiver that may be ending.
    """
    deadline = time.monotonic() + _LIMIT
    while not _process.is_gone(settings, process):
        if not wait or time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def leave() -> None:
    """Ends this process's use of all receivers. Its streams break, and later streams start other receivers."""
    _process.leave()


class _Process:
    """The receivers that this process uses. They are used until the process ends: another epoch needs them again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By servers and certificates. A text is the reason why there can be none.
        self._found: dict[Hashable, PrivateServer | str] = {}

    def find(self, settings: Settings) -> PrivateServer:
        """Returns the receiver, and starts it unless it runs."""
        if sys.platform != "linux":
            raise errors.Invalid("only Linux passes memory to other processes")
        key = _key(settings)
        with self._lock:
            known = self._found.get(key)
            if isinstance(known, str):
                raise errors.Invalid(known)
            if known is not None and known.runs():
                return known
            if known is not None:
                del self._found[key]
                known.close()
            try:
                tls = {
                    "tls_roots": settings.tls_roots or _default_roots(),
                    "tls_chain": settings.tls_chain,
                    "tls_key": settings.tls_key,
                }
                found = start_receiver(settings.locations, tls)
            except (OSError, ValueError) as e:
                raise errors.Unavailable(f"start a receiver: {e}") from e
            except errors.Error as e:
                if not isinstance(e, errors.Unavailable):  # it would fail again
                    self._found[key] = e.message
                raise
            self._found[key] = found
            return found

    def is_gone(self, settings: Settings, process: int) -> bool:
        """Reports whether the receiver with this process does not run anymore."""
        with self._lock:
            known = self._found.get(_key(settings))
            return isinstance(known, PrivateServer) and (not known.runs() or known.pid != process)

    def leave(self) -> None:
        """Ends the use of all receivers."""
        with self._lock:
            found, self._found = self._found, {}
            for one in found.values():
                if isinstance(one, PrivateServer):
                    one.close()

    def after_in_child(self) -> None:
        """A child owns no receivers yet."""
        self._lock = threading.Lock()
        self._found = {}


def _default_roots() -> bytes | None:
    """Returns the certificates that gRPC trusts in this process instead of the system's; None if there are none.

    Raises:
        OSError: they cannot be read.
    """
    path = os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
    return Path(path).read_bytes() if path else None


def _key(settings: Settings) -> Hashable:
    return settings.locations, settings.tls_roots, settings.tls_chain, settings.tls_key


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.after_in_child)
