"""Servers on a socket of the file system."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import lake
import pytest
from server import Server

import penstock

ROWS = 500


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("socket"), 6, ROWS, 50)


@pytest.fixture
def path() -> Iterator[Path]:
    """A path that is short enough for a socket; pytest's own are long."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "penstock.sock"


def test_socket_and_port_stream_the_same_rows(config: Path, path: Path) -> None:
    with Server(config) as server, penstock.connect(server.address) as client:
        want = client.read("d").read_all()
    assert want.num_rows == ROWS
    with Server(config, listen=f"unix://{path}") as server:
        assert server.address == f"unix://{path}"
        with penstock.connect("grpc+" + server.address) as client:
            assert client.read("d").read_all().equals(want)
            parts = [client.read("d", lanes=4, shard=(i, 4)).read_all() for i in range(4)]
            assert sum(part.num_rows for part in parts) == ROWS


def test_stream_resumes_with_the_next_server_on_a_socket(config: Path, path: Path) -> None:
    listen = f"unix://{path}"
    with Server(config, listen=listen) as server, penstock.connect("grpc+" + listen) as client:
        stream = client.read("d", batch_rows=100)
        got = next(stream).column("row").to_pylist()
        cursor = stream.cursor
        server.kill()
        with pytest.raises(penstock.Unavailable):
            client.status()
        with Server(config, listen=listen):
            got += client.read("d", cursor=cursor).read_all().column("row").to_pylist()
    assert sorted(got) == list(range(ROWS))


def test_error_if_no_server_listens(path: Path) -> None:
    with (
        penstock.connect(f"grpc+unix://{path}", timeout=10) as client,
        pytest.raises(penstock.Unavailable),
    ):
        client.datasets()
