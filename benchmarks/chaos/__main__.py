"""Runs faults from a seed below trainers and writers, and checks rows, commits and memory.

    python -m chaos [--seed N] [--faults N] [--for SECONDS] [--plain] [--json FILE]

It needs a build of the server with the tag shiftclock, s3gateway and OpenSSL; PostgreSQL, network namespaces, small disks and
memory limits are left out, with the reason, where they cannot be had. Exits with 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from chaos import checks, host, schedule, trainer, wire
from chaos.course import Course
from chaos.jobs import Commands, Copier, Trainer, Writer, promote
from chaos.keys import Keys
from chaos.lake import WRITTEN, Lake
from chaos.server import BOUND, MIB, Server

ROOT = Path(__file__).resolve().parents[2]
_POLICY = """rules:
  - subjects: ["*"]
    read: ["*"]
    write: ["*"]
    allow: [explain, verify, cache, status, stage, publish, promote]
"""
_TREND = 5.0  # MiB an hour
_TREND_FROM = 1500.0  # seconds that a run must last for its trend to count
_HELD = 1 << 20  # bytes of the budget, such as those of open connections
_SETTLE = 180.0  # seconds in which every job must go on after the repairs, and servers must release memory
_REST_EVERY = 360.0  # seconds between two rests of all jobs
_TRIMMED = 25.0  # seconds in which a server without streams returns free memory
_QUERY: dict[str, Any] = {"order": "shuffled", "seed": 7, "shuffle_window": 2000, "batch_rows": 100}


class Run:
    """The world of a run, what happens in it, and what was wrong."""

    def __init__(self, given: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self.given, self.wrong = given, list[str]()
        plain = "--plain" if given.plain else ""
        self.left_out = {"packets": plain or wire.possible(), "disks and memory": plain or host.possible()}
        self.began = time.monotonic()
        self.go = threading.Event()
        self.go.set()
        stack.callback(self.go.set)  # threads that wait for it end
        small = not self.left_out["disks and memory"]
        self.wire = None if self.left_out["packets"] else stack.enter_context(wire.Wire(given.seed))
        near = self.wire.here if self.wire else "127.0.0.1"
        self.keys = Keys(folder / "keys", ["IP:127.0.0.1", f"IP:{near}"])
        self.lake = Lake(folder / "lake", given.gateway, self.keys, given.seed, stack)
        self.left_out["PostgreSQL"] = "" if self.lake.sql else "there is no initdb"
        (folder / "policy.yaml").write_text(_POLICY)
        self.servers = []
        for number in range(schedule.SERVERS):
            server = Server(
                number, given.binary, self.lake.config, folder / f"server{number}", self.keys, near, small
            )
            self.servers.append(server)
            stack.callback(server.close)
        for server in self.servers:
            if not server.up.wait(60):
                raise SystemExit(f"server {server.number} did not start: {server.log.read_text()[-2000:]}")
        self.trainers = self._trainers(folder / "jobs", stack)
        self._changes(folder, stack)
        self.course = Course(self.lake, self.keys, self.servers, self.trainers, self.commands, self.wire)
        stack.callback(self.course.close)

    def play(self) -> None:
        """Makes the faults, repairs everything, and checks that all jobs go on."""
        kinds = dict(schedule.PLAIN)
        for some, there in (
            (schedule.SQL, "PostgreSQL"),
            (schedule.SMALL, "disks and memory"),
            (schedule.WIRE, "packets"),
        ):
            if not self.left_out[there]:
                kinds.update(some)
        faults = schedule.draw(self.given.seed, self.given.faults, self.given.seconds, kinds)
        parts = max(1, round(self.given.seconds / _REST_EVERY))
        for part in range(parts):
            length = self.given.seconds / parts
            self.course.play(faults, part * length, (part + 1) * length, self._say)
            self._rest()
        self._say("everything is repaired")
        before = {job.name: job.progress() for job in self.trainers}
        done = [sum(commands.done.values()) for commands in self.commands]
        until = time.monotonic() + _SETTLE
        waiting = list(self.trainers)
        stuck = list(range(len(done)))
        while (waiting or stuck) and time.monotonic() < until:
            time.sleep(0.5)
            waiting = [job for job in waiting if job.progress() <= before[job.name]]
            stuck = [i for i in stuck if sum(self.commands[i].done.values()) <= done[i]]
        self.wrong += [f"{job.name} did not go on within {_SETTLE:g} s of the repairs" for job in waiting]
        self.wrong += [f"command {i} did not succeed within {_SETTLE:g} s of the repairs" for i in stuck]
        self._end_changes()
        for job in self.trainers:
            job.close()

    def _rest(self) -> None:
        """Ends all jobs for a while, and measures server 0. Servers without streams must hold little memory.

        They notice clients that are gone within minutes.
        """
        self.go.clear()
        until, holding = time.monotonic() + _SETTLE, list(self.servers)
        while holding and time.monotonic() < until:
            for job in self.trainers:
                job.send(signal.SIGKILL)
            time.sleep(1)
            holding = [server for server in self.servers if server.held() > _HELD]
        self.wrong += [
            f"server {server.number} holds {server.held():.0f} bytes of memory for nothing"
            for server in holding
        ]
        time.sleep(_TRIMMED)
        self.servers[0].measure()
        self.go.set()

    def check(self) -> dict[str, Any]:
        """Compares everything with an undisturbed run. Returns counts."""
        self._say("comparing")
        counts: dict[str, Any] = {"steps": 0, "epochs": 0, "evaluations": 0, "changes": 0}
        ranks: dict[str, list[Any]] = {}
        for job in self.trainers:
            self.wrong += job.wrong
        evaluations = [job for job in self.trainers if job.given.get("splits")]
        trainers = [job for job in self.trainers if job not in evaluations]
        with ThreadPoolExecutor(len(trainers)) as pool:
            compared = list(pool.map(checks.compare, trainers))
        for job, (wrong, rows, steps) in zip(trainers, compared, strict=True):
            self.wrong += wrong
            counts["steps"] += steps
            if "dataset" in job.given["query"]:
                ranks.setdefault(job.given["query"]["dataset"], []).append(rows)
        for job in evaluations:
            wrong, done = checks.evaluated(job)
            self.wrong += wrong
            counts["evaluations"] += done
        for dataset, of in ranks.items():
            self.wrong += checks.together(dataset, of)
            counts["epochs"] += min(len(rank) for rank in of)
        for writer in self.writers:
            self.wrong += checks.written(writer, self.lake.table(writer.table))
            counts["changes"] += len(writer.tokens) + len(writer.undone)
        self.wrong += self.copier.wrong
        for commands in self.commands:
            self.wrong += commands.wrong
        for server in self.servers:
            self.wrong += server.ends
            self.wrong += list(checks.bugs(server.log))
            if server.peak > BOUND:
                self.wrong.append(
                    f"server {server.number} had {server.peak / MIB:.0f} MiB, and {BOUND / MIB:.0f} are its bound"
                )
        trend = checks.slope(self.servers[0].heap)
        if self.given.seconds >= _TREND_FROM and trend > _TREND:
            self.wrong.append(f"the live heap of server 0 grew by {trend:.1f} MiB an hour")
        return {**counts, "trend": trend}

    def report(self, counts: dict[str, Any]) -> dict[str, Any]:
        """Everything that was found."""
        ends: dict[str, int] = {}
        for job in self.trainers:
            for kind, number in job.ends.items():
                ends[kind] = ends.get(kind, 0) + number
        return {
            "seed": self.given.seed,
            "seconds": self.given.seconds,
            "took": round(time.monotonic() - self.began),
            "faults": dict(sorted(self.course.made.items())),
            "left out": {k: v for k, v in self.left_out.items() if v},
            "calls hit": {"s3": self.lake.s3.hits, "rest": self.lake.rest.hits},
            "packets dropped": self.wire.dropped if self.wire else 0,
            "rotations": self.keys.rotations,
            "starts of servers": [server.started for server in self.servers],
            "peaks, MiB": [round(server.peak / MIB) for server in self.servers],
            "bound, MiB": round(BOUND / MIB),
            "heap of server 0 at rests, MiB": [round(size / MIB, 2) for _, size in self.servers[0].heap],
            "trend of server 0, MiB an hour": round(counts.pop("trend"), 2),
            "ends of trainers": ends,
            "commands done": [dict(commands.done) for commands in self.commands],
            "commands failed": [dict(commands.failed) for commands in self.commands],
            **counts,
            "errors of the run itself": self.course.errors,
            "wrong": self.wrong,
        }

    def _trainers(self, folder: Path, stack: ExitStack) -> list[Trainer]:
        addresses = [f"grpc+tls://{server.relay.address}" for server in self.servers]
        prefix = self.wire.prefix if self.wire else []
        base = {"ca": str(self.keys.ca), "token": str(self.keys.token)}
        with trainer.connect({**base, "addresses": addresses}) as client:
            names = ["home", "other", *(["sql"] if self.lake.sql else [])]
            pins = {name: dict(client.plan(name).pin) for name in names}

        def query(name: str, **more: Any) -> dict[str, Any]:
            return {"dataset": name, "snapshots": pins[name], **more}

        mix = [{**query("home", weight=2.0), "name": "home"}, {**query("other", weight=1.0), "name": "other"}]
        queries = [query("home", **_QUERY, lanes=4, shard=[i, 4]) for i in range(4)]
        queries.append({"mix": mix, "order": "shuffled", "seed": 7, "global_batch_rows": 90})
        if self.lake.sql:
            queries += [query("sql", **_QUERY, lanes=2, shard=[i, 2]) for i in range(2)]
        evaluations: list[dict[str, Any]] = [
            {"dataset": "home", "columns": ["row", "key", "label", "score", "history"]}
        ]
        found = []
        for number, one in enumerate([*queries, *evaluations]):
            splits, at = number >= len(queries), number % len(addresses)
            name = f"{'evaluation' if splits else 'trainer'}{number}"
            given = {
                **base,
                "addresses": [*addresses[at:], *addresses[:at]],
                "folder": str(folder / name),
                "query": one,
                "splits": splits,
                "pause": 2.0 if splits else self.given.pause,
            }
            found.append(Trainer(name, prefix, given, ROOT, self.go))
            stack.callback(found[-1].close)
        return found

    def _changes(self, folder: Path, stack: ExitStack) -> None:
        """Starts the writers, the copies and the promotions, with a clock that all of their commands share."""
        tables = list(WRITTEN) if self.lake.sql else [WRITTEN[0]]
        self.threads: list[threading.Thread] = []
        self.commands = [self._commands(number, folder) for number in range(len(tables) + 2)]
        self.writers = [
            Writer(table, one, folder / f"writer{i}", self.given.seed + i)
            for i, (table, one) in enumerate(zip(tables, self.commands, strict=False))
        ]
        self.copier = Copier(self.commands[-2], folder / "copies")
        runs: list[Callable[[Callable[[], bool]], None]] = [writer.run for writer in self.writers]
        runs += [self.copier.run, partial(promote, self.commands[-1])]
        for run, one in zip(runs, self.commands, strict=True):
            self.threads.append(
                threading.Thread(target=run, args=(partial(one.stop.wait, self.given.between),))
            )
        for thread in self.threads:
            thread.start()
        stack.callback(self._end_changes)

    def _commands(self, number: int, folder: Path) -> Commands:
        address = self.servers[number % len(self.servers)].relay.address
        flags = [
            "--uri",
            f"grpc+tls://{address}",
            "--tls-ca",
            str(self.keys.ca),
            "--token-file",
            str(self.keys.token),
        ]
        rng = random.Random(self.given.seed + number)
        said = folder / f"commands{number}"
        return Commands(
            self.given.binary, self.lake.config, self.servers[-1].clock, flags, rng, said, self.go
        )

    def _end_changes(self) -> None:
        for commands in self.commands:
            commands.stop.set()
        for thread in self.threads:
            thread.join()

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Runs, and prints a report. Returns 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=600)
    parser.add_argument("--for", dest="seconds", type=float, default=3600.0, metavar="SECONDS")
    parser.add_argument("--pause", type=float, default=0.25, help="seconds of a training step")
    parser.add_argument("--between", type=float, default=5.0, help="seconds between two changes of a table")
    parser.add_argument("--plain", action="store_true", help="without what needs root")
    parser.add_argument("--json", type=Path, help="a file for the report")
    parser.add_argument("--keep", type=Path, help="a new folder that keeps all logs")
    binary = os.environ.get("PENSTOCK_BIN", str(ROOT / "bin" / "chaos" / "penstock"))
    gateway = os.environ.get("PENSTOCK_S3GATEWAY", str(ROOT / ".bin" / "s3gateway"))
    parser.add_argument(
        "--binary", type=Path, default=Path(binary), help="the server, built with the tag shiftclock"
    )
    parser.add_argument("--gateway", type=Path, default=Path(gateway))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos") as made, ExitStack() as stack:
        folder = Path(made)
        if given.keep:
            folder = given.keep
            folder.mkdir(parents=True)
        run = Run(given, folder, stack)
        run.play()
        report = run.report(run.check())
    text = json.dumps(report, indent=1)
    if given.json:
        given.json.write_text(text + "\n")
    print(text)
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
