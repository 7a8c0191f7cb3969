"""The release before this one with this one, both ways: its program and its package, as built from its commit.

tools/release-before.txt names it. `make release-before` builds it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from server import BINARY, Server
from test_restarts import World, make

ROOT = Path(__file__).parents[2]
_NOT_IN_HISTORY = 3
_LIMIT = 60.0

pytestmark = pytest.mark.more


@dataclasses.dataclass(frozen=True)
class Release:
    """A program, and the folder of a Python package."""

    name: str
    binary: Path
    package: Path


NEW = Release("new", BINARY, ROOT / "python" / "src")


@pytest.fixture(scope="module")
def old() -> Release:
    made = subprocess.run([ROOT / "tools" / "release_before.sh"], capture_output=True, text=True, check=False)
    if made.returncode == _NOT_IN_HISTORY:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    folder = Path(made.stdout.strip())
    return Release("old", folder / "penstock", folder / "package")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("before"))


class Client:
    """A process that does a task with the package of a release."""

    def __init__(self, release: Release, do: str, *addresses: str, **task: Any) -> None:
        self._package = release.package
        environment = {**os.environ, "PYTHONPATH": str(release.package)}
        program = Path(__file__).with_name("release_client.py")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, str(program)], env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "addresses": addresses, **task}) + "\n")
        self._process.stdin.flush()

    def paused(self) -> None:
        """Waits until it has read the batches after which it pauses."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "read\n"

    def result(self) -> dict[str, Any]:
        """Lets it go on, and waits for the result."""
        out, err = self._process.communicate("\n", timeout=_LIMIT)
        assert self._process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        assert found.pop("package") == str(self._package)
        return {**found, "log": err}


QUERY = {"batch_rows": 64, "lanes": 2, "order": "shuffled", "seed": 5, "shuffle_window": 300}


def both(old: Release) -> list[tuple[Release, Release]]:
    """A client's release and a server's, both ways."""
    return [(NEW, old), (old, NEW)]


def test_calls_are_answered(world: World, old: Release) -> None:
    """Every call has the same result, whichever release asks and answers; a manifest of one is replayed by the other."""
    found = {}
    for client, server in [(NEW, NEW), *both(old)]:
        with Server(world.config, binary=server.binary) as running:
            found[client.name, server.name] = Client(client, "ask", running.address).result()
    first = found.pop(("new", "new"))
    for name, other in found.items():
        version = other.pop("version")  # of the server
        assert version == first["version"] if name[1] == "new" else version, name
        assert {**other, "version": first["version"], "manifest": other["manifest"]["plan"]} == {
            **first,
            "manifest": first["manifest"]["plan"],
        }, name


@pytest.mark.parametrize("wire", ["plain", "auto"])
def test_cursors_go_from_one_to_the_other(world: World, old: Release, wire: str) -> None:
    query = {**QUERY, "wire": wire}
    with Server(world.config) as new, Server(world.config, binary=old.binary) as before:
        whole = Client(NEW, "read", new.address, query=query).result()["rows"]
        for (client, here), (other, there) in (((NEW, before), (old, new)), ((old, new), (NEW, before))):
            start = Client(client, "read", here.address, query=query, batches=7).result()
            more = {"batch_rows": 64, "wire": wire}
            rest = Client(other, "read", there.address, query=more, cursor=start["cursor"]).result()
            assert start["rows"] + rest["rows"] == whole


def test_streams_go_from_one_to_the_other(world: World, old: Release) -> None:
    """Servers of both releases stop in the midst of streams of both packages, which lose no row."""
    for client in (NEW, old):
        for first, second in ((NEW, old), (old, NEW)):
            # A server that cannot move a stream ends it soon, instead of waiting for the client.
            with (
                Server(world.config, "--drain", "1ms", binary=first.binary) as stopped,
                Server(world.config, binary=second.binary) as other,
            ):
                whole = Client(NEW, "read", other.address, query=QUERY).result()["rows"]
                reader = Client(
                    client, "read", stopped.address, other.address, query=QUERY, batches=3, pause=True
                )
                reader.paused()
                stopped.terminate()
                if client is NEW and first is NEW:
                    found = reader.result()
                else:
                    stopped.wait()
                    found = reader.result()
                assert found["rows"] == whole, (client.name, first.name)
                assert found["moved"] + found["resumed"] == 1, (client.name, first.name)
                if client is old or first is old:
                    assert found["moved"] == 0


def test_rows_are_staged(tmp_path: Path, old: Release) -> None:
    """A repeated token is found by the other release."""
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("features")
    config = tmp_path / "penstock.yaml"
    config.write_text(
        f"catalogs: {{default: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db',"
        f" warehouse: 'file://{tmp_path}/warehouse', writes: {{namespaces: [features]}}}}}}\n"
        "datasets: {history: {training: {table: features.history}, key: [id]}}\n"
    )
    rows = []
    for number, (client, server) in enumerate(both(old)):
        part = [{"id": 10 * number + i, "country": "CH"} for i in range(10)]
        rows += part
        task = {"table": "features.history", "rows": part, "token": f"token-{number}"}
        for at, written in ((server, len(part)), (NEW if server is old else old, 0)):
            with Server(config, binary=at.binary) as running:
                assert Client(client, "stage", running.address, **task).result()["rows"] == written
    found = catalog.load_table("features.history").scan().to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == rows
    catalog.engine.dispose()
