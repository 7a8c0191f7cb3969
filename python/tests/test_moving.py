"""Streams of the real server that is told to stop: they continue on another server, without an error or a warning."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from lake import Lake, Row
from pyiceberg.types import LongType
from server import Server
from test_restarts import QUERIES, World, connect, make, read, rest_of

import penstock

pytestmark = pytest.mark.usefixtures("in_order")

# What make test reads; make test-more reads the others.
FEW = ("lanes", "splits", "grouped", "limit")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("moving"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "tickets.keys"
    path.write_text("k1 " + "A" * 43 + "=\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def server(world: World, keys: Path) -> Iterator[Server]:
    with Server(world.config, "--ticket-keys", str(keys)) as server:
        yield server


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the package has warned of."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "penstock" and record.levelno > logging.INFO
    ]


def until_followed(stream: penstock.Stream) -> None:
    """Waits until the server tells the package where the stream moves, which it does for streams that last."""
    channel = stream._readings[0]._channel
    assert channel is not None
    while channel.follower._lease is None:
        time.sleep(0.01)


# spec: wire-58
@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.more) for name in QUERIES]
)
def test_a_stopped_server_is_not_noticed(
    world: World, server: Server, keys: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = QUERIES[name]
    with connect(server.address) as client:
        whole = rest_of(read(client, **query))
    with (
        Server(world.config, "--ticket-keys", str(keys)) as first,
        connect(first.address, server.address) as client,
    ):
        stream = read(client, **query)
        got = [(next(stream), stream.cursor) for _ in range(3)]
        first.terminate()
        got += rest_of(stream)
        assert first.wait() == 0
    assert got == whole
    assert stream.stats.moved >= 1
    assert stream.stats.resumed == 0
    assert not said(caplog)
    assert stream.report["batches"] == len(whole)
    for part in stream.report.get("parts", [])[:-1]:
        assert part["ended"] == "the server was told to stop"


# spec: wire-58
def test_one_server_that_restarts(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """With one address, the package tries again until a server listens there, at first without a warning."""
    caplog.set_level(logging.INFO, "penstock")
    with Server(world.config) as first, connect(first.address) as client:
        whole = rest_of(read(client))
        stream = read(client)
        got = [(next(stream), stream.cursor) for _ in range(3)]
        first.terminate()
        rest: list[Any] = []
        reader = threading.Thread(target=lambda: rest.extend(rest_of(stream)))
        reader.start()
        assert first.wait() == 0
        while "retry 1 " not in caplog.text:
            threading.Event().wait(0.01)
        with Server(world.config, listen=first.address):
            reader.join(60)
            assert got + rest == whole
    assert (stream.stats.moved, stream.stats.resumed) == (1, 0)
    assert not said(caplog)


# spec: wire-55
def test_clients_that_do_not_move(world: World, server: Server) -> None:
    """Neither a client that never retries nor a plain Flight client gets the message: both read to the report or an error."""
    for limit, kind in (("60s", None), ("1ms", penstock.Unavailable)):
        with Server(world.config, "--drain", limit) as first:
            with connect(first.address, server.address, reconnect=0) as client:
                stream = read(client)
                rows = next(stream).num_rows
                plain = flight.FlightClient(f"grpc://{first.address}")
                info = plain.get_flight_info(
                    flight.FlightDescriptor.for_command(b'{"dataset": "wide", "batch_rows": 64}')
                )
                reader = plain.do_get(info.endpoints[0].ticket)
                first.terminate()
                if kind is None:
                    assert rows + stream.read_all().num_rows == len(world.rows)
                    assert reader.read_all().num_rows == len(world.rows)
                else:
                    with pytest.raises(kind, match="shutting down"):
                        stream.read_all()
                    with pytest.raises(flight.FlightUnavailableError, match="shutting down"):
                        reader.read_all()
                del reader
                plain.close()
            first.wait()


# spec: wire-58
def test_servers_that_all_stop(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that no server continues waits, warns after some time, and fails when its time is over."""
    monkeypatch.setattr("penstock.interruption._QUIET", 0.0)
    with (
        Server(world.config) as first,
        Server(world.config) as second,
        connect(first.address, second.address, reconnect=2) as client,
    ):
        stream = read(client)
        next(stream)
        for one in (first, second):
            one.terminate()
        with pytest.raises(penstock.Unavailable, match="Retried"):
            stream.read_all()
    assert 1 <= len([text for text in said(caplog) if "retry" in text]) < 20


# spec: computed-17
def test_a_stream_keeps_its_expressions(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows: list[Row] = [{"id": i, "price": i % 100} for i in range(50_000)]
    lake.write("ml.train", {name: LongType() for name in ("id", "price")}, ("id", 4), rows)

    def config(name: str, expressions: dict[str, str]) -> Path:
        computed = [{"column": column, "expr": text} for column, text in expressions.items()]
        dataset = {"training": {"table": "ml.train"}, "key": ["id"], "computed": computed}
        return lake.config({"d": dataset}, f"{name}.yaml")

    before = config("before", {"bucket": "price / 10", "other": "price + 1"})
    same = config("same", {"bucket": "price/10", "other": "price + 2"})
    changed = config("changed", {"bucket": "price / 20", "other": "price + 1"})
    columns = ["id", "bucket"]
    for after, refused in ((same, False), (changed, True)):
        with (
            Server(before) as first,
            Server(after) as second,
            connect(first.address, second.address) as client,
            connect(first.address) as alone,
        ):
            whole = alone.read("d", columns=columns, batch_rows=500).read_all()
            stream = client.read("d", columns=columns, batch_rows=500)
            got = [next(stream)]
            first.terminate()
            if not refused:
                got += stream
                assert pa.Table.from_batches(got) == whole
                assert stream.stats.moved == 1
                continue
            with pytest.raises(penstock.Expired, match="the expression of column bucket"):
                got += stream
            # What came before is right.
            part = pa.Table.from_batches(got)
            assert part == whole.slice(0, part.num_rows)


# spec: wire-60, wire-61
def test_the_other_server_begins_while_batches_are_on_their_way(
    world: World, keys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest is open at the other server before the reader takes another batch."""
    query = {"order": "shuffled", "seed": 3, "wire": "plain"}
    flags = ("--ticket-keys", str(keys))
    with (
        Server(world.config, *flags) as first,
        Server(world.config, *flags) as second,
        connect(second.address) as other,
        # A transport that holds some batches, and not the whole stream.
        penstock.connect([first.address, second.address], reconnect=60, lookahead=4 << 20) as client,
    ):
        whole = rest_of(read(other, **query))
        stream = read(client, **query)
        got = [(next(stream), stream.cursor)]
        until_followed(stream)
        first.terminate()
        while not (found := other.status().streams):
            threading.Event().wait(0.01)
        assert found[0].step > 1
        got += rest_of(stream)
        assert first.wait() == 0
    assert got == whole
    assert (stream.stats.moved, stream.stats.resumed) == (1, 0)
    assert not said(caplog)


# spec: wire-61
def test_a_reader_that_is_slower_than_drain(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A server that has said where a stream moves, and then breaks the stream, is no failure. The servers' keys differ."""
    with (
        Server(world.config, "--drain", "1s") as first,
        Server(world.config) as second,
        connect(second.address) as other,
        connect(first.address, second.address) as client,
    ):
        whole = rest_of(read(other))
        stream = read(client)
        got = [(next(stream), stream.cursor)]
        until_followed(stream)
        first.terminate()
        while not stream._readings[0]._messages.ending:  # type: ignore[union-attr]
            time.sleep(0.01)
        assert first.wait() == 1
        got += rest_of(stream)
    assert got == whole
    assert (stream.stats.moved, stream.stats.resumed) == (1, 0)
    assert not said(caplog)
    assert stream.report["parts"][0]["ended"] == "the server was told to stop"


# spec: wire-58
def test_a_server_that_stops_before_a_stream_opens(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A stream that was planned on a server which has stopped since opens on another one at once."""
    with (
        Server(world.config) as first,
        Server(world.config) as second,
        connect(first.address, second.address) as client,
        connect(second.address) as other,
    ):
        whole = rest_of(read(other))
        stream = read(client)
        first.terminate()
        assert first.wait() == 0
        assert rest_of(stream) == whole
    assert stream.stats.resumed == 0
    assert not said(caplog)


def test_a_program_that_ends_with_an_open_stream(server: Server) -> None:
    """The thread that follows the stream ends before the interpreter, which would abort the process."""
    program = (
        "import atexit, sys, threading, time\n"
        "def names(): return [one.name for one in threading.enumerate() if one.name.startswith('penstock')]\n"
        "atexit.register(lambda: print(names()))\n"  # it runs last
        "import penstock\n"
        "stream = penstock.connect(sys.argv[1], lookahead=1 << 16).read('wide', batch_rows=10)\n"
        "next(stream)\n"
        "time.sleep(1.5)\n"
        "print(names())\n"
    )
    command = [sys.executable, "-c", program, server.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['penstock-follow']\n[]\n"
