"""The servers, their relays, small disks, memory limits and clocks."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from chaos import host
from chaos.keys import AUDIENCE, ISSUER, Keys
from chaos.relay import Relay

MIB = 1 << 20
MEMORY = 64 * MIB
BOUND = MEMORY * 5 // 4 + 256 * MIB  # of resident memory, as docs/memory.md has it
_ROOM = 96 * MIB  # of a cgroup above the bound, for pages of files
_SPOOL, _COLUMNS = 64 * MIB, 16 * MIB
_SETTINGS = {
    "memory": "64MiB",
    "spool-limit": "56MiB",
    "cache-memory": "8MiB",
    "cache-disk": "12MiB",
    "storage-timeout": "10s",
    "drain": "3s",
    "ticket-lifetime": "1h",  # 24 h / 24
    "ticket-renewal": "30h",  # 720 h / 24
    "jwt-issuer": ISSUER,
    "jwt-audience": AUDIENCE,
    "pprof": "true",
    "log-format": "json",
}


@dataclasses.dataclass
class Server:
    """A server that is started again whenever it ends.

    Attributes:
        relay: through which clients reach it.
        ends: how it ended, for each time that it was not asked to.
        peak: the most bytes of resident memory.
        heap: times, and bytes that the heap of the current process had beyond its caches, for each call of measure.
        asked: whether it was killed or terminated on purpose.
        squeezed: whether its memory was limited below its bound, so that the kernel may kill it.
    """

    number: int
    binary: Path
    config: Path
    folder: Path
    keys: Keys
    near: str  # the host that clients reach it at
    small: bool  # whether disks and memory are limited

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.address, self._metrics = _free(), _free()
        self.relay = Relay(f"{self.near}:0", self.address)
        self.clock = self.folder / "clock"
        self.clock.write_text("0")
        self.disks: list[host.Disk] = []
        self.group: host.Group | None = None
        if self.small:
            sizes = {"spool": _SPOOL, "columns": _COLUMNS}
            self.disks = [host.Disk(self.folder / name, size) for name, size in sizes.items()]
            self.group = host.Group(f"chaos{os.getpid()}-{self.number}", BOUND + _ROOM)
        self.ends: list[str] = []
        self.peak, self.started = 0, 0
        self.heap: list[tuple[float, float]] = []
        self.asked = self.squeezed = False
        self.up = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    @property
    def log(self) -> Path:
        """What the server has logged."""
        return self.folder / "log"

    def send(self, what: signal.Signals) -> None:
        """Sends a signal to the process."""
        process = self._process
        if process is not None and process.poll() is None:
            self.asked = self.asked or what in (signal.SIGKILL, signal.SIGTERM)
            process.send_signal(what)

    def look(self) -> None:
        """Updates the peak of memory."""
        process = self._process
        if process is not None:
            self.peak = max(self.peak, resident(process.pid))

    def measure(self) -> None:
        """Collects garbage, and records what is left of the heap, without caches for later streams."""
        for _ in range(2):  # free lists such as gRPC's survive one collection
            profile = self._read("debug/pprof/heap?gc=1&debug=1").decode()
        self.heap.append((time.monotonic(), allocated(profile) - self._metric("memory_idle_bytes")))

    def held(self) -> float:
        """The bytes of the budget that something holds, caches for later streams aside; infinite if it does not answer."""
        try:
            return self._metric("memory_reserved_bytes") - self._metric("memory_idle_bytes")
        except OSError:
            return math.inf

    def _metric(self, name: str) -> float:
        page = self._read("metrics").decode()
        found = re.search(rf"^penstock_{name} (\S+)", page, re.M)
        if found is None:
            raise LookupError(f"{name} is no metric")
        return float(found[1])

    def _read(self, page: str) -> bytes:
        with urllib.request.urlopen(f"http://{self._metrics}/{page}", timeout=20) as answer:
            content: bytes = answer.read()
            return content

    def shift(self, seconds: int) -> None:
        """Sets its clock ahead of the machine's."""
        self.clock.write_text(str(seconds))

    def heal(self) -> None:
        """Ends all faults."""
        self.relay.heal()
        self.shift(0)
        for disk in self.disks:
            disk.heal()
        if self.group is not None:
            self.group.heal()
        self.send(signal.SIGCONT)

    def close(self) -> None:
        """Ends the server, and unmounts its disks."""
        self._stop.set()
        self.heal()
        self.send(signal.SIGTERM)
        self._thread.join(30)
        self.send(signal.SIGKILL)
        self._thread.join()
        for disk in self.disks:
            disk.close()
        if self.group is not None:
            self.group.close()

    def _command(self) -> list[str]:
        files = {
            "tls-cert": self.keys.certificate,
            "tls-key": self.keys.key,
            "jwt-keys": self.keys.issuer_keys,
            "ticket-keys": self.keys.ticket_keys,
            "policy": self.folder.parent / "policy.yaml",
            "spool": self.folder / "spool",
            "cache-dir": self.folder / "columns",
        }
        flags = [f"--{name}={value}" for name, value in {**_SETTINGS, **files}.items()]
        listen = ["--listen", self.address, "--metrics", self._metrics]
        return [str(self.binary), "serve", "--config", str(self.config), *listen, *flags]

    def _keep(self) -> None:
        while not self._stop.is_set():
            self.asked, self.heap = False, []
            with self.log.open("a") as log:
                process = subprocess.Popen(
                    self._command(),
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env={**os.environ, "PENSTOCK_CLOCK_SHIFT": str(self.clock)},
                    start_new_session=True,
                )
            self._process = process
            if self.group is not None:
                self.group.join(process.pid)
            assert process.stdout is not None
            serves = bool(process.stdout.readline())
            if serves:
                self.started += 1
                self.up.set()
            process.wait()
            self.up.clear()
            process.stdout.close()
            if serves and not self.asked and not (self.squeezed and process.returncode == -signal.SIGKILL):
                self.ends.append(f"server {self.number} ended by itself with {process.returncode}")
            self._stop.wait(0.5)


def allocated(profile: str) -> int:
    """The bytes of the heap that were in use, by the statistics in a heap profile of Go in its text form."""
    found = re.search(r"^# HeapAlloc = (\d+)$", profile, re.M)
    if found is None:
        raise LookupError("the profile has no statistics of the heap")
    return int(found[1])


def resident(pid: int) -> int:
    """The bytes of resident memory of a process; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def _free() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
