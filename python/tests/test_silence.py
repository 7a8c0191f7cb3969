"""Servers that send nothing: those that are gone are left, and those that are slow are not."""

from __future__ import annotations

import dataclasses
import os
import signal
import types
from typing import Any

import pytest
from proxy import Proxy, pings
from server import Server
from test_restarts import World, connect, make, read, rest_of

import penstock
from penstock.addresses import Address
from penstock.call import Calls
from penstock.rests import rests
from penstock.settings import Settings

pytestmark = pytest.mark.usefixtures("in_order")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("silence"))


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no rest end, however long a test takes."""
    monkeypatch.setattr("penstock.rests.time", types.SimpleNamespace(monotonic=lambda: 0.0))


def with_keepalive(client: penstock.Client, seconds: float) -> penstock.Client:
    """The client with another time of silence."""
    return penstock.Client(dataclasses.replace(client.settings, keepalive=seconds))


# spec: replicas-8
@pytest.mark.usefixtures("endless")
def test_a_suspended_server_is_left(world: World) -> None:
    """Its connections stay open, and it accepts new ones."""
    with (
        Server(world.config) as first,
        Server(world.config) as second,
        connect(first.address, second.address) as client,
        with_keepalive(client, 1.0) as impatient,
    ):
        assert client.settings.keepalive * 2 <= 12
        whole = rest_of(read(client, wire="plain"))
        stream = read(impatient, wire="plain")
        got = [(next(stream), stream.cursor)]
        os.kill(first.pid, signal.SIGSTOP)
        assert got + rest_of(stream) == whole
        assert stream.stats.resumed == 1
        assert rests.left(Address(f"grpc://{first.address}")) > 0
        assert rest_of(read(impatient, wire="plain")) == whole


# spec: replicas-8
def test_a_connection_that_falls_silent_is_lost(world: World) -> None:
    """The network loses all packets, and neither end receives a reset."""
    with (
        Server(world.config) as server,
        Proxy(server.address) as proxy,
        connect(proxy.address, server.address) as client,
        with_keepalive(client, 1.0) as impatient,
        read(impatient, wire="plain") as stream,
    ):
        got = next(stream).num_rows
        proxy.silent.set()
        assert got + stream.read_all().num_rows == len(world.rows)
        assert stream.stats.resumed == 1


# spec: replicas-8
@pytest.mark.usefixtures("endless")
def test_a_call_leaves_a_silent_server_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try on a new connection would take as long again."""
    connected: list[str] = []
    connects = Settings.connect

    def counted(self: Settings, address: Address, calls: Calls) -> Any:
        connected.append(address.location)
        return connects(self, address, calls)

    monkeypatch.setattr(Settings, "connect", counted)
    with (
        Server(world.config) as server,
        Proxy(server.address) as proxy,
        connect(proxy.address, server.address) as client,
        with_keepalive(client, 1.0) as impatient,
    ):
        plan = impatient.plan("wide").id
        proxy.silent.set()
        assert impatient.plan("wide").id == plan
        assert connected == [f"grpc://{proxy.address}", f"grpc://{server.address}"]
        assert rests.left(Address(f"grpc://{proxy.address}")) > 0


# spec: replicas-8
def test_nothing_is_pinged_while_data_arrives(world: World) -> None:
    """On a slow network, the answer to a ping waits behind the data, and would come too late."""
    with (
        Server(world.config) as server,
        Proxy(server.address) as proxy,
        penstock.connect(proxy.address) as client,
        with_keepalive(client, 600.0) as patient,
    ):
        assert read(patient, wire="plain").read_all().num_rows == len(world.rows)
        assert [pings(sent) for sent in proxy.sent] == [0]  # one connection, without a ping


# spec: replicas-8
@pytest.mark.more
def test_a_slow_network_loses_no_connection(world: World) -> None:
    """The data on its way takes longer than the server has for the answer to a ping."""
    with Server(world.config) as server, Proxy(server.address) as proxy:
        proxy.pace = 250_000
        with (
            penstock.connect(proxy.address, reconnect=0) as client,
            with_keepalive(client, 2.0) as impatient,
        ):
            assert read(impatient, wire="plain", limit=200).read_all().num_rows == 200
            assert len(proxy.sent) == 1
