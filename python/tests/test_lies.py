"""Servers that lie about the positions of their batches, flood their clients, or fall silent in the middle of a stream."""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
from fake_server import BATCH_ROWS, ROWS
from test_fork import in_child

import penstock
from penstock import addresses
from penstock.homeward import Homeward
from penstock.opener import Opener
from penstock.reading import Reading
from penstock.rests import rests
from penstock.successor import Successor

pytestmark = pytest.mark.usefixtures("in_order")

LIES = ("plan", "shard", "step", "no step", "list", "depth", "infinity")


# spec: replicas-14
@pytest.mark.parametrize("lie", LIES)
def test_a_batch_of_another_position_is_refused(fake: penstock.Client, lie: str) -> None:
    """Whatever its rows are: a cursor that is not that of the batch would lose or repeat rows when it is resumed."""
    stream = fake.read(f"lies {lie}", shard=(0, 1))
    got: list[int] = []
    with pytest.raises(penstock.Corrupt):
        for batch in stream:
            got += batch.column("n").to_pylist()
    assert got == list(range(BATCH_ROWS if lie == "step" else 0))


def test_a_report_of_another_form(fake: penstock.Client) -> None:
    with pytest.raises(penstock.Corrupt, match="neither a batch nor its report"):
        fake.read("strange report").read_all()


# spec: replicas-14
def test_more_rows_than_planned(fake: penstock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server could send batches without end. The rest of the query that the client knows has fewer rows than come."""
    for name, planned in (("rows", 100), ("batches", 2)):
        stream = fake.read("good")
        endpoint = stream._readings[0]._endpoint
        monkeypatch.setitem(endpoint.__dict__, name, planned)
        with pytest.raises(penstock.Corrupt, match=f"planned {planned} {name}, and sends more"):
            stream.read_all()
        assert stream.stats.rows < 3 * BATCH_ROWS


# spec: replicas-15
def test_a_server_that_floods_its_followers(fake_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says 500 times where a stream moves. Each time could cost a thread, a plan and a stream of another server."""
    monkeypatch.setattr("penstock.following._AFTER", 0.0)
    opened: list[Any] = []

    class Counted(Successor):
        def __init__(self, *given: Any) -> None:
            opened.append(given)
            super().__init__(*given)

    monkeypatch.setattr("penstock.ahead.Successor", Counted)
    with penstock.connect(fake_address, reconnect=60) as client:
        stream = client.read("followed", shard=(0, 1))
        assert stream.read_all().num_rows == ROWS
    assert len(opened) == 1


@pytest.fixture
def two(fake_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.Client]:
    """A client of the fake server by two addresses, the first of which rests."""
    monkeypatch.setattr("penstock.homeward._LOOK", 0.0)
    monkeypatch.setattr("penstock.homeward._SPREAD", 0.0)
    monkeypatch.setattr("penstock.reading._LAST", 0.0)
    port = fake_address.rpartition(":")[2]
    with penstock.connect([f"localhost:{port}", fake_address], reconnect=60, timeout=30) as client:
        rests.failed(addresses.Address(f"grpc://localhost:{port}"))
        yield client


def home_of(client: penstock.Client) -> addresses.Address:
    return addresses.Address(client.settings.locations[0])


def ended(opener: Opener) -> bool:
    """Waits until the reader, which looks at each batch, has given up an opener."""
    for _ in range(2000):
        if isinstance(opener, Homeward):
            opener.take(-1)
        if opener.ended:
            return True
        threading.Event().wait(0.01)
    return False


# spec: replicas-12, replicas-14
@pytest.mark.parametrize("lie", [*(one for one in LIES if one != "step"), "silence"])
def test_a_first_server_that_lies_does_not_end_a_stream(
    two: penstock.Client, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.homeward.LIMIT", 0.2)
    stream = two.read(f"resumed {lie}", shard=(0, 1))
    got = next(stream).column("n").to_pylist()
    rests.answered(home_of(two))
    for batch in stream:
        got += batch.column("n").to_pylist()
        homeward = stream._readings[0]._ahead._homeward
        assert homeward is None or ended(homeward)
    assert got == list(range(ROWS))
    assert stream.stats.moved == 0
    assert "penstock-homeward" not in [thread.name for thread in threading.enumerate()]


def test_a_stream_is_closed_before_it_is_open(fake: penstock.Client) -> None:
    stream = fake.read("good", shard=(0, 1))
    reading = stream._readings[0]
    assert reading._open()
    messages = reading._messages
    assert messages is not None
    messages.close()
    with pytest.raises(penstock.Invalid, match="closed"):
        messages.next()
    assert messages._lease is None


def test_servers_that_all_move_a_stream(fake: penstock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream tries each address, however many there are, in a loop."""
    reading = fake.read("good")._readings[0]
    found = tuple(addresses.Address(f"grpc://127.0.0.1:{port}") for port in range(1, 301))
    monkeypatch.setattr("penstock.servers.resolve", lambda *_, **__: found)
    channels = iter(fake._servers.order(""))

    def opened(this: Reading) -> bool:
        this._messages = types.SimpleNamespace(  # type: ignore[assignment]
            moved=True,
            batches=0,
            ending=True,
            receives=False,
            begun=True,
            position={},
            channel=next(channels),
        )
        this._messages.next = this._messages.close = this._messages.note_failure = lambda *_: None  # type: ignore
        return True

    monkeypatch.setattr(Reading, "_open", opened)
    monkeypatch.setattr("penstock.reading.Reading._prepare_retry", lambda *_: False)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        with pytest.raises(penstock.Unavailable, match="shutting down"):
            reading.next()
    finally:
        sys.setrecursionlimit(before)
    assert reading.moved >= 298


def test_a_resolver_that_hangs_keeps_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often an address of the name fails meanwhile."""
    clock = itertools.count(100.0, 5.0)
    monkeypatch.setattr("penstock.addresses.time.monotonic", lambda: next(clock))
    entered, go_on, calls = threading.Event(), threading.Event(), itertools.count(1)

    def hangs(_: str) -> None:
        next(calls)
        entered.set()
        go_on.wait(30)

    monkeypatch.setattr("penstock.addresses._resolved", hangs)
    addresses.names.after_in_child()
    service = "grpc://servers:8815"
    addresses.names.known(service)
    assert entered.wait(30)
    for _ in range(20):
        addresses.names.doubt(service)
        assert addresses.names.known(service) == addresses.names.of(service) == ()
    go_on.set()
    assert next(calls) == 2
    addresses.names.after_in_child()


def test_a_program_that_has_no_more_threads(two: penstock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the interpreter, which refuses to start threads: streams are read where they are."""

    def refuses(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    stream = two.read("good")
    next(stream)
    rests.answered(home_of(two))
    monkeypatch.setattr(threading.Thread, "start", refuses)
    addresses.names.after_in_child()
    assert stream.read_all().num_rows == ROWS - BATCH_ROWS


# spec: replicas-11
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_a_stream_on_its_way_home(two: penstock.Client) -> None:
    """The thread that opens the rest has not ended yet when the stream is closed."""
    for _ in range(10):
        stream = two.read("good")
        next(stream)
        rests.answered(home_of(two))
        next(stream)
        assert stream._readings[0]._ahead._homeward is not None
        stream.close()
        assert in_child(lambda: two.read("good").read_all()) == 0
        rests.failed(home_of(two))
