"""Streams that go back to their first server when it has returned, or has a new name in DNS."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from server import Server
from test_restarts import QUERIES, World, connect, make, read, rest_of

import penstock
from penstock import addresses
from penstock.homeward import Homeward, Homing
from penstock.rests import rests
from penstock.servers import Servers
from penstock.settings import Settings

FEW = ("lanes", "splits", "a DataLoader worker", "grouped")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("homeward"))


@pytest.fixture(scope="module")
def home(world: World) -> Iterator[Server]:
    with Server(world.config) as server:
        yield server


@pytest.fixture(scope="module")
def other(world: World) -> Iterator[Server]:
    with Server(world.config) as server:
        yield server


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, in_order: None) -> None:  # noqa: ARG001
    """Streams look for their first server at each batch, go there at once, and up to their end."""
    monkeypatch.setattr("penstock.homeward._LOOK", 0.0)
    monkeypatch.setattr("penstock.homeward._SPREAD", 0.0)
    monkeypatch.setattr("penstock.reading._LAST", 0.0)


def away(
    client: penstock.Client, home: Server, **query: Any
) -> tuple[penstock.Stream, list[tuple[Any, Any]]]:
    """A stream that has begun at the second server, with its first batch."""
    rests.failed(addresses.Address(f"grpc://{home.address}"))
    stream = read(client, **query)
    return stream, [(next(stream), stream.cursor)]


def channel_of(stream: penstock.Stream) -> str:
    channel = stream._readings[stream._at]._channel
    assert channel is not None
    return channel.address.location


def read_slowly(stream: penstock.Stream) -> list[tuple[Any, Any]]:
    """Reads the rest as a loop that is slower than the servers: a stream on its way home has its next batch."""
    got = []
    for batch in stream:
        got.append((batch, stream.cursor))
        homeward = stream._readings[min(stream._at, len(stream._readings) - 1)]._ahead._homeward
        if homeward is not None:
            await_batch(homeward)
    return got


def await_batch(homeward: Homeward) -> None:
    while homeward._batch is None and not homeward.ended:
        threading.Event().wait(0.001)


def returned(home: Server) -> None:
    rests.answered(addresses.Address(f"grpc://{home.address}"))


# spec: replicas-11
@pytest.mark.parametrize(
    "name",
    [
        name if name in FEW else pytest.param(name, marks=pytest.mark.more)
        for name in QUERIES
        if name != "limit"
    ],
)
def test_streams_go_home(home: Server, other: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    query = QUERIES[name]
    with connect(home.address, other.address) as client:
        whole = rest_of(read(client, **query))
        stream, got = away(client, home, **query)
        assert channel_of(stream) == f"grpc://{other.address}"
        returned(home)
        got += read_slowly(stream)
        assert got == whole
        assert stream.stats.resumed == 0
        assert stream.stats.moved >= 1
        assert stream.report["batches"] == len(whole)
        ends = {part.get("ended") for part in stream.report.get("parts", [])}
        if "shards" not in stream.report and name not in ("splits", "splits of unknown rows"):
            assert "the first server for the stream has returned" in ends
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


# spec: replicas-11
def test_some_streams_stay(home: Server, other: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a limit, those that do not move, and those that will soon end."""
    for query, settings, last in (({"limit": 2001}, {}, 0.0), ({}, {"reconnect": 0}, 0.0), ({}, {}, 1e9)):
        monkeypatch.setattr("penstock.reading._LAST", last)
        with connect(home.address, other.address, **settings) as client:
            stream, _ = away(client, home, **query)
            returned(home)
            next(stream)
            assert stream._readings[0]._ahead._homeward is None
            stream.close()


# spec: replicas-12
def test_a_home_that_refuses_is_asked_again_later(
    world: World, other: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Server(world.config, "--max-streams", "1") as full,
        connect(full.address) as first,
        connect(full.address, other.address) as client,
    ):
        whole = rest_of(read(first))
        stream, got = away(client, full)
        holds = read(first)
        next(holds)
        returned(full)
        got.append((next(stream), stream.cursor))
        homeward = stream._readings[0]._ahead._homeward
        assert homeward is not None
        holds.close()
        got += rest_of(stream)
        assert got == whole
        assert stream.stats.resumed == 0
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


# spec: replicas-12
def test_tries_come_later_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.undo()
    monkeypatch.setattr("penstock.homeward.time.monotonic", lambda: now)
    monkeypatch.setattr("penstock.homeward.random.uniform", lambda _, most: most)
    monkeypatch.setattr("penstock.servers.ranked", lambda _, found: list(found))
    servers = Servers(Settings(("grpc://127.0.0.1:1", "grpc://127.0.0.1:2")))
    first, second = (channel.address for channel in servers.order(""))
    homing = Homing(servers, "homefeed 0/1")
    assert homing.due(first) is None
    waits = []
    for _ in range(6):
        began = now
        now += 1
        while homing.due(second) is None:
            now += 1
        waits.append(now - began)
        homing.failed()
    assert waits == [61, 60, 120, 240, 480, 600]
    # A first server that fails again and again gets the stream less and less often.
    homing, waits = Homing(servers, "homefeed 0/1"), []
    for stayed in (1, 1, 1, 600, 1):
        began = now
        now += 1
        while homing.due(second) is None:
            now += 1
        waits.append(now - began)
        homing.arrived()
        now += stayed
        assert homing.due(first) is None
    assert waits == [61, 61, 121, 241, 61]
    servers.close()


# spec: replicas-11
def test_a_new_server_in_dns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream begins at the only server of a name, and goes to the first one of two."""
    ips = ["127.0.0.2"]

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ips]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    addresses.names.after_in_child()
    with (
        Server(world.config) as new,
        Server(world.config, listen=f"127.0.0.2:{new.address.rpartition(':')[2]}"),
    ):
        name = f"servers:{new.address.rpartition(':')[2]}"
        with connect(new.address) as one:
            whole = rest_of(read(one))
        ips += ["127.0.0.3"]  # nothing listens there
        with connect(name) as client:
            stream = read(client)
            got = [(next(stream), stream.cursor)]
            ips[:] = ["127.0.0.1", "127.0.0.2"]
            addresses.names.after_in_child()
            addresses.names.of(f"grpc://{name}")
            got += read_slowly(stream)
            assert got == whole
            assert stream.stats.moved == 1
            channel = stream._readings[0]._channel
            assert channel is not None
            assert channel.address.ip == "127.0.0.1"
    addresses.names.after_in_child()


# spec: replicas-11
def test_a_stream_on_its_way_home_is_closed(home: Server, other: Server) -> None:
    """Closed or dropped: no thread is left."""
    with connect(home.address, other.address) as client:
        for close in (True, False):
            stream, _ = away(client, home)
            returned(home)
            next(stream)
            homeward = stream._readings[0]._ahead._homeward
            assert homeward is not None
            if close:
                stream.close()
            del stream
            homeward._thread.join(30)
            assert not homeward._thread.is_alive()
    assert "penstock-homeward" not in [thread.name for thread in threading.enumerate()]
