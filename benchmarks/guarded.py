"""Measures what checks add to a call: a token, a policy and an audit log (docs/security.md).

    python benchmarks/guarded.py --binary bin/penstock --config .demo/tables/penstock.yaml

Two servers have the datasets of one configuration: one without checks, one with all of them. Both are asked for the same in turns, so
that whatever else the machine does falls on both. It prints the median times of a call that plans, from memory, and of one that
reads ten rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.flight as fl

TURNS, CALLS = 10, 60


class Checked:
    """A server, and a client that sends a token if it has one."""

    def __init__(self, command: list[str], token: str = "") -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._client = fl.FlightClient("grpc://" + self._process.stdout.readline().strip())
        self._options = fl.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {token}".encode())] if token else []
        )

    def times(self, query: bytes) -> tuple[float, float]:
        """How long planning and reading take, in milliseconds."""
        began = time.perf_counter()
        found = self._client.get_flight_info(fl.FlightDescriptor.for_command(query), self._options)
        planned = time.perf_counter()
        self._client.do_get(found.endpoints[0].ticket, self._options).read_all()
        return (planned - began) * 1e3, (time.perf_counter() - planned) * 1e3

    def end(self) -> None:
        """Stops the server."""
        self._client.close()
        self._process.terminate()
        self._process.wait()


def main() -> None:
    """Runs the measurement."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default="bin/penstock")
    flags.add_argument("--config", default=".demo/tables/penstock.yaml")
    flags.add_argument("--dataset", default="movielens")
    given = flags.parse_args()
    query = json.dumps({"dataset": given.dataset, "limit": 10}).encode()
    serve = [
        given.binary,
        "serve",
        "--config",
        given.config,
        "--listen",
        "127.0.0.1:0",
        "--memory",
        "512MiB",
        "--log-level",
        "error",
    ]
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        new = [given.binary, "token", "new", "--subject", "trainers", "--tokens", str(folder / "tokens")]
        token = subprocess.run(
            new, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        ).stdout.strip()
        (folder / "policy.yaml").write_text(f"rules:\n- {{subjects: [trainers], read: [{given.dataset}]}}\n")
        guards = [
            "--tokens",
            str(folder / "tokens"),
            "--policy",
            str(folder / "policy.yaml"),
            "--audit-log",
            str(folder / "audit.log"),
        ]
        servers = [Checked(serve), Checked([*serve, *guards], token)]
        try:
            times: list[list[tuple[float, float]]] = [[], []]
            for turn in range(-1, TURNS):
                for server, of in zip(servers, times, strict=True):
                    took = [server.times(query) for _ in range(CALLS)]
                    of.extend(took if turn >= 0 else [])  # plans are made in the first turn
        finally:
            for server in servers:
                server.end()
        lines = len((folder / "audit.log").read_text().splitlines())
    for number, name in enumerate(("GetFlightInfo", "DoGet of 10 rows")):
        without, checked = (statistics.median(pair[number] for pair in of) for of in times)
        print(
            f"{name}: {without:.2f} ms without checks, {checked:.2f} ms with all: {checked - without:+.2f} ms"
        )
    print(f"{lines} lines in the audit log for {(TURNS + 1) * CALLS} streams")


if __name__ == "__main__":
    main()
