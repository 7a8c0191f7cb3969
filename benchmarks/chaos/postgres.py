"""A private server of PostgreSQL with the tables of a SQL catalog."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

USER, PASSWORD = "penstock", "chaos"
_ROWS = "catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL"
_TABLES = f"""
CREATE TABLE iceberg_tables ({_ROWS}, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
  iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
  property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key));
"""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class Postgres:
    """A server with a catalog; it does not run as root. Close ends it."""

    def __init__(self, bin_folder: Path) -> None:
        self._bin = bin_folder
        self._folder = Path(tempfile.mkdtemp(prefix="chaos-postgres"))
        self._user = (
            ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []
        )
        if self._user:
            shutil.chown(self._folder, "nobody", "nogroup")
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        data = ["--pgdata", str(self._folder / "data")]
        self._run(
            "initdb",
            "--no-sync",
            "--auth",
            "scram-sha-256",
            "--username",
            USER,
            "--pwfile",
            str(secret),
            *data,
        )
        settings = f"-h 127.0.0.1 -p {self.port} -c unix_socket_directories='' -c fsync=off"
        self._stop = ["--wait", *data, "--mode", "immediate", "stop"]
        self._run(
            "pg_ctl", "--wait", *data, "--log", str(self._folder / "log"), "--options", settings, "start"
        )
        self.ask(_TABLES)

    def ask(self, statement: str) -> str:
        """Runs a statement, and returns its rows as text."""
        command = [
            "psql",
            "-v",
            "ON_ERROR_STOP=1",
            "-tA",
            f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres",
        ]
        done = subprocess.run(command, input=statement, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self._bin / program), *arguments]
        # The postmaster would keep a pipe open.
        subprocess.run(
            command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """Ends the server, and removes its files."""
        self._run("pg_ctl", *self._stop)
        shutil.rmtree(self._folder, ignore_errors=True)
