"""Measures what TLS costs a stream: T over TLS, beside plain TCP in the same run.

    python benchmarks/tables.py .bench/full
    python benchmarks/encrypted.py --binary bin/penstock --config .bench/full/penstock.yaml

Two servers have the same tables: one uses plain TCP, one TLS. Their epochs take turns. Batches have 8,192 rows, and the
client counts rows. It prints the median of the ratios of the turns, and the processor seconds of the servers.
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


class Served:
    """A server, and a client that reads epochs from it."""

    def __init__(self, command: list[str], roots: bytes | None = None) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip().rpartition(":")[2]
        scheme = "grpc+tls" if roots else "grpc"
        self._client = fl.FlightClient(f"{scheme}://localhost:{port}", tls_root_certs=roots)

    def processor(self) -> float:
        """The seconds of processor time that the server has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def columns(self, dataset: str) -> list[str]:
        """The names of a dataset's columns."""
        command = fl.FlightDescriptor.for_command(json.dumps({"dataset": dataset}).encode())
        return list(self._client.get_flight_info(command).schema.names)

    def epoch(self, query: dict[str, object]) -> tuple[float, float]:
        """Reads a query: rows per second, and the server's processor seconds."""
        before, began, rows = self.processor(), time.perf_counter(), 0
        found = self._client.get_flight_info(fl.FlightDescriptor.for_command(json.dumps(query).encode()))
        for endpoint in found.endpoints:
            for chunk in self._client.do_get(endpoint.ticket):
                rows += chunk.data.num_rows if chunk.data is not None else 0
        return rows / (time.perf_counter() - began), self.processor() - before

    def end(self) -> None:
        """Stops the server."""
        self._client.close()
        self._process.terminate()
        self._process.wait()


def main() -> None:
    """Runs the measurement."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default="bin/penstock")
    flags.add_argument("--config", default=".bench/full/penstock.yaml")
    flags.add_argument("--dataset", default="t")
    flags.add_argument("--rounds", type=int, default=7)
    flags.add_argument(
        "--cache-memory", default="0", help="of both servers; by default, each epoch is decoded"
    )
    given = flags.parse_args()
    serve = [
        given.binary,
        "serve",
        "--config",
        given.config,
        "--listen",
        "127.0.0.1:0",
        "--log-level",
        "error",
    ]
    serve += ["--cache-memory", given.cache_memory]
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as made:
        cert, key = Path(made, "server.pem"), Path(made, "server.key")
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost"
        files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
        subprocess.run([*command.split(), *files], check=True, capture_output=True)
        pair = ["--tls-cert", str(cert), "--tls-key", str(key)]
        servers = [Served(serve), Served([*serve, *pair], cert.read_bytes())]
        try:
            for wire in ("indexed", "plain"):
                report(given, wire, servers)
        finally:
            for server in servers:
                server.end()


def report(given: argparse.Namespace, wire: str, servers: list[Served]) -> None:
    """Measures and prints one form of batches."""
    query = {"dataset": given.dataset, "batch_rows": 8192, "wire": wire}
    turns = [[server.epoch(query) for server in servers] for _ in range(given.rounds + 1)][1:]
    ratio = statistics.median(tls[0] / plain[0] for plain, tls in turns)
    speeds = [statistics.median(turn[i][0] for turn in turns) / 1e6 for i in range(2)]
    used = [statistics.median(turn[i][1] for turn in turns) for i in range(2)]
    print(
        f"{wire}: {speeds[1]:.2f} M rows/s over TLS, {speeds[0]:.2f} over plain TCP: {ratio:.2f} x; "
        f"servers' CPU {used[1]:.2f} and {used[0]:.2f} s"
    )


if __name__ == "__main__":
    main()
