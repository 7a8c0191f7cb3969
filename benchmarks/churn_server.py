"""The server of the churn, which is killed and started again, and watched all the time."""

from __future__ import annotations

import dataclasses
import select
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from process import peak_bytes
from running import Program, RunError

_START_LIMIT = 60
_STOP_LIMIT = 20
_WATCH_EVERY = 0.3
_SECTOR = 512


@dataclasses.dataclass
class Seen:
    """The maxima of all server processes, and whether one of them ended by itself."""

    memory: int = 0
    disk: int = 0
    files: int = 0
    starts: list[float] = dataclasses.field(default_factory=list)  # seconds, until they serve
    ended: bool = False


class Restarted:
    """A server at one address, with a folder for decoded columns. Leaving the block ends it."""

    def __init__(self, program: Program, config: Path, home: Path) -> None:
        self.address, self._metrics = _free_address(), _free_address()
        self._folder = home / "columns"
        settings = (*program.settings, ("cache_dir", str(self._folder)), ("log_level", "error"))
        program = dataclasses.replace(program, settings=settings)
        self._command = program.command(config, self.address, "--metrics", self._metrics)
        self._log = home / "server.log"
        self._process: subprocess.Popen[str] | None = None
        self._down: list[tuple[float, float]] = []
        self._lock = threading.Lock()  # between a kill and those who watch
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self.seen = Seen()

    def __enter__(self) -> Restarted:
        self.start()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watcher.join()
        self.kill()

    @property
    def log(self) -> str:
        """What the server has logged."""
        return self._log.read_text()

    def start(self) -> float:
        """Starts the server, and returns the time at which its process began."""
        began = time.monotonic()
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        output = self._process.stdout
        if output is None or not select.select([output], [], [], _START_LIMIT)[0] or not output.readline():
            raise RunError(f"the server did not start: {self.log}")
        now = time.monotonic()
        self.seen.starts.append(now - began)
        if self._down:
            self._down[-1] = (self._down[-1][0], now)
        return began

    def kill(self) -> None:
        """Kills the server with SIGKILL."""
        self.look()
        with self._lock:
            if self._process is None:
                return
            self._down.append((time.monotonic(), float("inf")))
            self._process.kill()
            self._process.wait(_STOP_LIMIT)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def was_down(self, since: float) -> bool:
        """Whether the server was killed, or not yet started again, after a time."""
        return any(ended >= since for _, ended in self._down)

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels, or of one with its labels."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def look(self) -> None:
        """Updates what was seen."""
        files = size = 0
        for path in self._folder.glob("**/*"):
            try:
                size += path.lstat().st_blocks * _SECTOR
            except FileNotFoundError:  # deleted meanwhile
                continue
            files += 1
        with self._lock:
            self.seen.disk, self.seen.files = max(self.seen.disk, size), max(self.seen.files, files)
            if self._process is None:
                return
            if self._process.poll() is not None:
                self.seen.ended = True
                return
            self.seen.memory = max(self.seen.memory, peak_bytes(self._process.pid))

    def _watch(self) -> None:
        while not self._stop.wait(_WATCH_EVERY):
            self.look()


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
