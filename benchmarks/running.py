"""Processes of a measurement: servers, and contenders that read from them, on the cores that they may use."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from peers.contender import Outcome

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

_CLIENT_LIMIT = 900
_STOP_LIMIT = 20


def exit_status(missed: Sequence[str]) -> int:
    """Prints what was missed, a line each. Returns the exit status: 1 if there is any."""
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


class RunError(Exception):
    """A process did not finish; the message is its last output."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A server program with settings, by their names in its config file, and fields of all queries of it."""

    binary: Path
    settings: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def command(self, config: Path, listen: str, *more: str) -> list[str]:
        """The command that serves a config file."""
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in self.settings]
        command = [str(self.binary.resolve()), "serve", "--config", str(config.resolve())]
        return [*command, "--listen", listen, *more, *flags]


@dataclasses.dataclass
class Served:
    """A server that runs. `first` is the first line of its output: an address, or what it offers."""

    first: str
    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a line of JSON to the server's input, and read one from its output."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RunError("the server has no input")
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


def on_cores(cores: int | None, command: Sequence[str]) -> list[str]:
    """The command on the first cores that this process may use; None: on all of them."""
    if cores is None:
        return list(command)
    allowed = sorted(os.sched_getaffinity(0))
    if cores > len(allowed):
        raise RunError(f"{cores} cores are asked for, and there are {len(allowed)}")
    return ["taskset", "--cpu-list", ",".join(map(str, allowed[:cores])), *command]


def contender(module: str, arguments: Mapping[str, Any], cores: int | None = None) -> Outcome:
    """Run a contender, a module of `peers`; arguments that are None are left out."""
    command = [sys.executable, "-m", f"peers.{module}"]
    for name, value in arguments.items():
        if value is not None:
            command += [f"--{name}", str(value)]
    return Outcome.from_json(json.loads(output(on_cores(cores, command)).splitlines()[-1]))


def output(command: Sequence[str]) -> str:
    """The output of a program that ends by itself."""
    try:
        done = subprocess.run(
            command, cwd=HERE, env=_environment(), capture_output=True, text=True, timeout=_CLIENT_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"no end after {_CLIENT_LIMIT} s") from None
    if done.returncode != 0:
        raise RunError(_last_words(done.stderr) or f"exit code {done.returncode}")
    return done.stdout


@contextmanager
def serving(command: Sequence[str], cores: int | None = None) -> Iterator[Served]:
    """Start a server, which prints a line when it serves. Its log is kept for the case that something fails."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            on_cores(cores, command),
            cwd=HERE,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            first = _line(server.stdout)
            if not first:
                raise RunError("the server gave no address")
            yield Served(first, server)
        except RunError as failed:
            log.seek(0)
            raise RunError(f"{failed}; server: {_last_words(log.read(), 3)}") from None
        finally:
            server.terminate()
            try:
                server.wait(_STOP_LIMIT)
            except subprocess.TimeoutExpired:
                server.kill()


def _line(stream: IO[str] | None) -> str:
    return stream.readline().strip() if stream else ""


def _environment() -> dict[str, str]:
    """This one, in which the Python package is that of this repository."""
    path = [str(ROOT / "python" / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _last_words(text: str, lines: int = 1) -> str:
    return "; ".join(line.strip() for line in text.strip().splitlines()[-lines:])
