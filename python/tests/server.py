"""Runs the real server for a test."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

BINARY = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).parents[2] / "bin" / "penstock"))
START_LIMIT = 30.0

# Set to have all servers deliver batches in mapped memory: the same tests must pass.
MAPPED = "PENSTOCK_TEST_MAPPED"


class Server:
    """A server process; leaving the block kills it.

    Attributes:
        address: host:port.
    """

    def __init__(self, config: Path, *flags: str, listen: str = "127.0.0.1:0", binary: Path = BINARY) -> None:
        self._log = config.with_suffix(".log")
        self._command = [str(binary), "serve", "--config", str(config), "--listen", listen, *flags]
        self._sockets: tempfile.TemporaryDirectory[str] | None = None
        if os.environ.get(MAPPED) and "--local-socket" not in flags:
            self._sockets = tempfile.TemporaryDirectory()  # whose path is short enough for a socket
            self._command += ["--local-socket", f"{self._sockets.name}/local.sock"]
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        spoke, _, _ = select.select([self._process.stdout], [], [], START_LIMIT)
        self.address = self._process.stdout.readline().strip() if spoke else ""
        if not self.address:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self._log.read_text()}")
        return self

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kills the server, so that its connections break."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
        if self._sockets is not None:
            self._sockets.cleanup()

    def reload(self) -> None:
        """Asks the server to read its config file again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def terminate(self) -> None:
        """Asks the server to end, and waits until it refuses connections: from then on, its streams end or move.

        A signal alone may come so late that a stream has ended by itself.
        """
        assert self._process is not None
        self._process.terminate()
        host, _, port = self.address.rpartition(":")
        with contextlib.suppress(ConnectionError):
            while True:
                socket.create_connection((host, int(port)), START_LIMIT).close()
                time.sleep(0.005)

    def wait(self) -> int:
        """Waits for the server to end, and returns its exit status."""
        assert self._process is not None
        return self._process.wait(30)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
