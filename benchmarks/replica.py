"""A server at a fixed address, which is stopped, killed or frozen, and started again."""

from __future__ import annotations

import contextlib
import re
import select
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from process import cpu_seconds
from running import Program, RunError

_START_LIMIT = 60
_STOP_LIMIT = 60


class Replica:
    """A server at one address, one of several that accept the same tickets.

    Attributes:
        address: host:port, the same after each start.
    """

    def __init__(
        self,
        config: Path,
        folder: Path,
        number: int,
        *,
        memory: int,
        host: str = "127.0.0.1",
        inside: Sequence[str] = (),
        counts: bool = False,
    ) -> None:
        """Prepares a server.

        Args:
            config: the server's configuration.
            folder: the folder of its log, and of the keys of tickets, which all replicas of the folder share.
            number: distinguishes the replicas of a folder.
            memory: the bytes of its budget.
            host: the address at which it listens.
            inside: prefix of its command, of a network namespace.
            counts: whether `total` is called; not for a server in a namespace, whose metrics are not reachable.
        """
        self.address = free_address() if host == "127.0.0.1" else f"{host}:{_PORT}"
        self._config, self._inside = config, list(inside)
        self._flags = [] if host == "127.0.0.1" else ["--insecure"]  # only its namespace reaches it
        self._metrics = free_address() if counts else ""
        if counts:
            self._flags += ["--metrics", self._metrics]
        self._log = folder / f"server-{number}.log"
        keys = folder / "tickets.keys"
        if not keys.exists():
            keys.touch(0o600)
            keys.write_text("k1 " + "A" * 43 + "=\n")
        self._settings = (("memory", str(memory)), ("ticket_keys", str(keys)), ("log_level", "warn"))
        self._process: subprocess.Popen[str] | None = None

    def start(self, binary: Path) -> None:
        """Starts the server, and waits until it serves."""
        command = Program(binary, self._settings).command(self._config, self.address, *self._flags)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*self._inside, *command], stdout=subprocess.PIPE, stderr=log, text=True
            )
        output = self._process.stdout
        if output is None or not select.select([output], [], [], _START_LIMIT)[0] or not output.readline():
            self.kill()
            raise RunError(f"the server did not start: {self._log.read_text()}")

    def stop(self) -> float:
        """Stops the server with SIGTERM, and waits until it has ended. Returns the seconds that it took."""
        began = time.monotonic()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_STOP_LIMIT)
            self._forget(self._process)
        return time.monotonic() - began

    def kill(self) -> None:
        """Kills the server, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget(self._process)

    def _forget(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def freeze(self) -> None:
        """Stops the process, whose connections stay open, until `thaw`."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """A frozen process continues."""
        self._running().send_signal(signal.SIGCONT)

    def cpu(self) -> float:
        """The CPU seconds of the server so far."""
        return cpu_seconds(self._running().pid)

    def read_bytes(self) -> int:
        """The bytes that the server has read so far: of files, and the few of its clients' requests."""
        for line in Path(f"/proc/{self._running().pid}/io").read_text().splitlines():
            name, _, count = line.partition(":")
            if name == "rchar":
                return int(count)
        raise RunError("the kernel does not count what processes read")

    def total(self, metric: str) -> int:
        """The sum of a counter over all its labels."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=_START_LIMIT) as page:
            text = page.read().decode()
        return sum(int(float(count)) for count in re.findall(rf"^{metric}(?:{{.*}})? (\S+)$", text, re.M))

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RunError(f"the server of {self.address} does not run")
        return self._process


_PORT = 8815  # in namespaces of their own, all replicas have it


def free_address() -> str:
    """An address of this host without a listener."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
