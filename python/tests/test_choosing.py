"""Which server clients ask first: names with several addresses, keys, rests, and refusals that not all servers share."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_splits
from server import Server
from test_restarts import World, connect, make, read, rest_of

import penstock
from penstock import addresses
from penstock.addresses import Address, Portion, ranked, resolve
from penstock.bound import BoundQuery
from penstock.channel import Channel
from penstock.race import first_to_accept
from penstock.rests import rests
from penstock.servers import Choice, Servers
from penstock.settings import Settings

THREE = tuple(f"grpc://127.0.0.1:{port}" for port in (1, 2, 3))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("choosing"))


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no rest end, however long a test takes."""
    monkeypatch.setattr("penstock.rests.time", types.SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """The names that resolve, with their IP addresses. Resolving another name fails."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        families = [socket.AF_INET6 if ":" in ip else socket.AF_INET for ip in known[host]]
        return [
            (family, socket.SOCK_STREAM, 6, "", (ip, port))
            for family, ip in zip(families, known[host], strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    addresses.names.after_in_child()
    yield known
    addresses.names.after_in_child()


# spec: replicas-5
def test_a_ninth_server_moves_few_keys() -> None:
    eight = [Address("grpc://servers:8815", f"10.0.0.{i}") for i in range(8)]
    ninth = Address("grpc://servers:8815", "10.0.0.8")
    keys = [f"homefeed {shard}/1000" for shard in range(1000)]
    before = {key: ranked(key, eight)[0] for key in keys}
    after = {key: ranked(key, [ninth, *eight])[0] for key in keys}
    moved = [key for key in keys if before[key] != after[key]]
    assert len(moved) <= 140
    assert {after[key] for key in moved} == {ninth}
    counts = Counter(before.values())
    assert len(counts) == 8
    assert all(95 <= count <= 155 for count in counts.values()), counts
    # The keys of a server that is gone spread over the others, too.
    seconds = Counter(ranked(key, eight)[1] for key in keys if before[key] == eight[0])
    assert len(seconds) == 7


# spec: replicas-5
def test_portions_spread_evenly() -> None:
    def homes(count: int, servers: int) -> list[Address]:
        found = [Address("grpc://servers:8815", f"10.0.0.{i}") for i in range(servers)]
        keys = [Portion("homefeed", index, count) for index in range(count)]
        orders = [ranked(key, random.sample(found, len(found))) for key in keys]
        assert all(len(set(order)) == servers for order in orders)
        return [order[0] for order in orders]

    for count, servers in itertools.product((1, 2, 7, 8, 64), (1, 2, 3, 8)):
        counts = Counter(homes(count, servers)).values()
        assert max(counts) == -(-count // servers), (count, servers)
    moved = sum(before != after for before, after in zip(homes(1000, 8), homes(1000, 9), strict=True))
    assert moved <= 140


def test_portions_that_a_server_numbers_wrongly() -> None:
    """They are placed by their hash."""
    found = [Address("grpc://servers:8815", f"10.0.0.{i}") for i in range(3)]
    for index, count in ((3, 1), (2, 2), (-1, 4), (0, 0), (1, -5), (2**62, 2**62)):
        portion = Portion("homefeed", index, count)
        assert ranked(portion, found) == ranked(str(portion), found)


# spec: replicas-1, replicas-2
def test_names_with_several_addresses(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_FRESH", 0.0)
    service = "grpc://servers:8815"
    names["servers"] = ["10.0.0.2", "10.0.0.1"]
    assert resolve([service]) == (Address(service, "10.0.0.1"), Address(service, "10.0.0.2"))
    assert resolve([service])[0].target == "grpc://10.0.0.1:8815"
    names["servers"] = ["fd00::2", "fd00::1", "10.0.0.1", "10.0.0.2"]
    assert [one.target for one in resolve([service])] == ["grpc://[fd00::1]:8815", "grpc://[fd00::2]:8815"]
    names["servers"] = []
    assert len(resolve([service])) == 2, "the last known ones"
    del names["servers"]
    assert len(resolve([service])) == 2, "the last known ones"
    names["servers"] = ["10.0.0.3"]
    assert resolve([service]) == (Address(service),)


# spec: replicas-2
def test_streams_of_a_receiver_close_with_the_client(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a server whose address the name no longer has."""
    monkeypatch.setattr(addresses, "_FRESH", 0.0)
    names["servers"] = ["127.0.0.2", "127.0.0.3"]
    servers = Servers(Settings(("grpc://servers:1",)))
    gone = next(one for one in servers.order("") if one.address.ip == "127.0.0.2")
    through = gone.through(Address("grpc+unix:///nowhere"))
    lease = through.lease()
    names["servers"] = ["127.0.0.3", "127.0.0.4"]
    assert len(servers.order("")) == 2
    servers.close()
    assert through.closed
    lease.release()


# spec: replicas-1
def test_one_server_with_addresses_of_two_families(names: dict[str, list[str]]) -> None:
    names["localhost"] = ["::1", "127.0.0.1"]
    alone = [
        "grpc://localhost:8815",
        "grpc://10.0.0.1:8815",
        "grpc://[::1]:8815",
        "grpc+unix:///run/s",
        "grpc://gone:1",
    ]
    assert resolve(alone) == tuple(map(Address, alone))


# spec: replicas-1
def test_a_proxy_resolves_names(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    names["servers"] = ["10.0.0.2", "10.0.0.1"]
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert resolve(["grpc://servers:8815"]) == (Address("grpc://servers:8815"),)
    monkeypatch.setenv("no_proxy", "10.0.0.0/8, .local")
    assert len(resolve(["grpc://servers:8815"])) == 1


# A host that is reached without the proxy is resolved here, and its servers are reached without the proxy, too.
#
# spec: replicas-1
def test_a_host_without_a_proxy_has_all_its_servers(
    world: World, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names["servers.ml.svc"] = ["127.0.0.1", "127.0.0.2"]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.com,.svc")
    with Server(world.config) as server:
        location = f"grpc://servers.ml.svc:{server.address.rpartition(':')[2]}"
        assert len(resolve([location])) == 2
        with penstock.connect(location) as client:
            assert client.datasets()
    with penstock.connect("grpc://127.0.0.1:9") as client, pytest.raises(penstock.Unavailable) as e:
        client.datasets()
    assert "http_proxy" in e.value.remedy


# spec: replicas-2
def test_names_are_resolved_again(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    service = "grpc://servers:8815"
    names["servers"] = ["10.0.0.1", "10.0.0.2"]
    clock = itertools.count(100.0, 0.0)
    monkeypatch.setattr("penstock.addresses.time.monotonic", lambda: next(clock))
    assert len(resolve([service])) == 2
    names["servers"].append("10.0.0.3")
    clock = itertools.count(129.0, 0.0)
    assert len(resolve([service])) == 2
    clock = itertools.count(130.0, 0.0)
    assert len(resolve([service])) == 3
    names["servers"].append("10.0.0.4")
    rests.failed(Address(service, "10.0.0.1"))
    clock = itertools.count(131.0, 0.0)
    assert len(resolve([service])) == 4, "after a failure"


# spec: replicas-1, replicas-4
def test_servers_behind_one_name(world: World, names: dict[str, list[str]]) -> None:
    """They have the same port. When one is killed, its shards go on at the other."""
    names["servers"] = ["127.0.0.1", "127.0.0.2"]
    with Server(world.config) as first:
        port = first.address.rpartition(":")[2]
        with (
            connect(first.address) as one,
            Server(world.config, listen=f"127.0.0.2:{port}"),
            connect(f"servers:{port}") as client,
        ):
            shards = [{"lanes": 8, "shard": (shard, 8)} for shard in range(8)]
            whole = [rest_of(read(one, **shard)) for shard in shards]
            streams = [read(client, **shard) for shard in shards]
            got = [[(next(stream), stream.cursor)] for stream in streams]
            assert {used.address.ip for used in client._servers._channels.values() if used.answered} == {
                "127.0.0.1",
                "127.0.0.2",
            }
            first.kill()
            for stream, before in zip(streams, got, strict=True):
                before += rest_of(stream)
            assert got == whole
            assert sum(stream.stats.resumed for stream in streams) > 0


# spec: replicas-5, endpoint-4
def test_splits_that_join_the_same_files_meet(tmp_path: Path) -> None:
    with Server(test_splits.make(tmp_path).config) as only, connect(only.address) as client:
        splits = client.read_splits("d")
        files = [split._endpoint.files for split in splits]
        assert files[0] is not None
        of = files[0].of
        assert 1 < of < len(splits)
        assert {one.index for one in files if one is not None} == set(range(of))

        def placed(servers: int) -> dict[int | None, set[str]]:
            with penstock.connect([f"grpc://127.0.0.1:{port}" for port in range(1, servers + 1)]) as other:
                first: dict[int | None, set[str]] = {}
                for split in splits:
                    files, bound = split._endpoint.files, BoundQuery(other._servers, split._bound.form)
                    key = bound.key_of(split._endpoint, splits.plan, None)
                    first.setdefault(files.index if files else None, set()).add(
                        str(other._servers.order(key)[0].address)
                    )
                return first

        few = placed(2)
        few.pop(None)  # rows without a key join nothing
        assert all(len(addresses) == 1 for addresses in few.values())
        counts = Counter(address for addresses in few.values() for address in addresses)
        assert max(counts.values()) == -(-of // 2)
        # Fewer groups of files than servers: all of the servers have splits.
        assert len(set.union(*placed(of + 1).values())) > of - 1


# spec: replicas-7
def test_an_address_that_has_failed_rests_for_all_clients() -> None:
    one, other = Servers(Settings(THREE)), Servers(Settings(THREE))
    order = [channel.address for channel in one.order("homefeed 0/8")]
    assert sorted(map(str, order)) == sorted(THREE)
    asked: list[Address] = []

    def refused(channel: Channel) -> None:
        asked.append(channel.address)
        channel.call(lambda client, options: list(client.list_flights(options=options)))

    with pytest.raises(penstock.Unavailable):
        one.ask(refused, Choice(one, "homefeed 0/8"))
    # The race for connections has found out that all refuse, so the one whose rest ends first came first.
    assert sorted(map(str, asked)) == sorted(THREE)
    rests.forget()
    rests.failed(order[0])
    assert [channel.address for channel in other.order("homefeed 0/8")] == [*order[1:], order[0]]
    for address in order[1:]:
        rests.failed(address)
    lengths = {address: rests.left(address) for address in order}
    assert [channel.address for channel in other.order("homefeed 0/8")] == sorted(
        order, key=lengths.__getitem__
    )
    rests.answered(order[2])
    assert other.order("homefeed 0/8")[0].address == order[2]
    for client in (one, other):
        client.close()


# spec: replicas-7
def test_rests_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    address, now, lengths = Address(THREE[0]), 1000.0, []
    monkeypatch.setattr("penstock.rests.time.monotonic", lambda: now)
    monkeypatch.setattr("penstock.rests.random.uniform", lambda _, most: most)
    for _ in range(7):
        rests.failed(address)
        rests.failed(address)  # another stream notices the same failure
        lengths.append(rests.left(address))
        now += lengths[-1]
    assert lengths == [1, 2, 4, 8, 16, 30, 30]
    rests.answered(address)
    rests.failed(address)
    assert rests.left(address) == 1


# spec: replicas-7
@pytest.mark.usefixtures("endless")
def test_a_fork_has_no_rests() -> None:
    rests.failed(Address(THREE[0]))
    if (child := os.fork()) == 0:
        os._exit(int(rests.left(Address(THREE[0])) > 0))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rests.left(Address(THREE[0])) > 0


def asked(*answers: penstock.errors.Error | str) -> tuple[list[Address], str | penstock.errors.Error]:
    """Asks servers that answer so, in this order. Returns the addresses that were asked, and the answer or failure."""
    servers, calls, left = Servers(Settings(THREE)), [], iter(answers)

    def ask(channel: Channel) -> str:
        calls.append(channel.address)
        answer = next(left)
        if isinstance(answer, str):
            return answer
        raise answer

    try:
        return calls, servers.ask(ask, Choice(servers, "homefeed"))
    except penstock.errors.Error as failure:
        return calls, failure
    finally:
        servers.close()


# spec: replicas-6
def test_exhausted_servers_are_passed_over() -> None:
    full = penstock.Exhausted("no free slot", retry_after=5)
    calls, answer = asked(full, full, "answered")
    assert (len(set(calls)), answer) == (3, "answered")
    calls, answer = asked(full, full, full)
    assert (len(set(calls)), answer) == (3, full)
    assert len(asked(penstock.Exhausted("the query needs more than the budget"))[0]) == 1


# spec: replicas-6
def test_many_servers_have_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them may take it whole."""
    for seconds, most in ((50.0, 3), (130.0, 2), (1.0, 9)):
        now = [0.0]
        monkeypatch.setattr("penstock.servers.time", types.SimpleNamespace(monotonic=lambda now=now: now[0]))
        servers = Servers(Settings(tuple(f"grpc://127.0.0.1:{port}" for port in range(1, 10)), timeout=120.0))
        calls: list[Channel] = []

        def ask(
            channel: Channel, now: list[float] = now, seconds: float = seconds, calls: list[Channel] = calls
        ) -> None:
            calls.append(channel)
            now[0] += seconds
            raise penstock.Unavailable("silent")

        with pytest.raises(penstock.Unavailable, match="silent"):
            servers.ask(ask, Choice(servers, "homefeed"))
        assert len(calls) == most
        servers.close()


def test_a_refusal_names_its_server() -> None:
    """Perhaps only this server is configured wrongly."""
    refusal = penstock.Unauthenticated("the token is unknown to the server", remedy="get one")
    refusal.of_server = True
    calls, failure = asked(refusal)
    assert str(failure) == f"{calls[0]}: the token is unknown to the server; get one"


# spec: replicas-10
def test_one_more_server_is_asked_before_a_refusal_counts() -> None:
    missing, expired = penstock.NotFound("no such dataset"), penstock.Expired("no such snapshot")
    foreign = penstock.Invalid("the cursor is of another plan", differs=("dataset",))
    for refusal in (missing, expired, foreign):
        assert asked(refusal, "answered")[1] == "answered"
        calls, answer = asked(refusal, penstock.NotFound("also here"), "never asked")
        assert (len(calls), answer) == (2, refusal)
        calls, answer = asked(refusal, penstock.Unavailable("gone"), "answered")
        assert (len(calls), answer) == (3, "answered")
    wrong = penstock.Invalid("unknown field")
    assert asked(wrong) == (asked(wrong)[0], wrong)


# spec: replicas-10
@pytest.mark.usefixtures("in_order")
def test_replicas_with_different_configurations(world: World) -> None:
    """A stream does not go on at the server with the new configuration, but at the one with its own."""
    staging = [{"table": "features.wide", "join": "inner"}]
    dataset = {"training": {"table": "ml.rows"}, "key": ["request_id"], "staging": staging}
    changed = world.made.config({"wide": dataset}, "other.yaml")
    with (
        Server(world.config) as first,
        Server(changed) as second,
        Server(world.config) as third,
        connect(first.address, second.address, third.address) as client,
    ):
        whole = rest_of(read(client))
        begun, unread = read(client), read(client)
        got = [(next(begun), begun.cursor)]
        first.kill()
        assert got + rest_of(begun) == whole
        assert rest_of(unread) == whole
        third.kill()
        with pytest.raises(penstock.Invalid) as caught:
            read(client, cursor=got[0][1])
        assert caught.value.differs


# spec: replicas-9
def test_an_address_that_does_not_accept_holds_up_nothing() -> None:
    """Its queue of connections is full, so it neither accepts nor refuses. Nothing is written to the one that accepts."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_server(("127.0.0.1", 0)) as accepts,
        contextlib.ExitStack() as held,
    ):
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        silent, refused, open_one = (
            Address(f"grpc://127.0.0.1:{port}")
            for port in (full.getsockname()[1], 1, accepts.getsockname()[1])
        )
        assert first_to_accept([silent, refused, open_one]) == open_one
        assert rests.left(refused) > 0
        assert rests.left(silent) == 0
        assert first_to_accept([refused]) is None
        accepted = held.enter_context(accepts.accept()[0])
        accepted.settimeout(10)
        assert accepted.recv(1) == b""
        unresolved = Address("grpc://servers:8815")
        assert first_to_accept([silent, unresolved, open_one]) == unresolved


# spec: replicas-9
def test_an_open_connection_is_not_raced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Server(world.config) as one,
        Server(world.config) as other,
        connect(one.address, other.address) as client,
    ):
        client.plan("wide")
        channel = Choice(client._servers, "wide").next()
        assert channel.connected
        monkeypatch.setattr("penstock.servers.first_to_accept", None)  # a call of it fails
        assert Choice(client._servers, "wide").next() is channel
