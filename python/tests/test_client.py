"""The client's calls, against a fake server."""

from __future__ import annotations

import http.server
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from fake_server import ROWS, SCHEMA, SNAPSHOT

import penstock
from penstock.arguments import location as location_of


def test_datasets_lists_the_broken_ones_too(fake: penstock.Client) -> None:
    good, broken = fake.datasets()
    assert (good.name, good.rows, good.error) == ("good", ROWS, None)
    assert good.schema == SCHEMA
    assert good.plan is not None
    assert (broken.name, broken.rows, broken.schema, broken.plan) == ("broken", None, None, None)
    assert isinstance(broken.error, penstock.NotFound)
    assert broken.error.table == "ml.gone"


def test_plan_has_the_known_facts(fake: penstock.Client) -> None:
    plan = fake.plan("good", shard=(0, 4))
    assert (plan.id, plan.lanes, plan.shards, plan.rows, plan.steps, plan.splits) == (
        "p",
        4,
        4,
        ROWS,
        None,
        3,
    )
    assert plan.pin["training"]["snapshot"] == SNAPSHOT
    assert plan.schema == SCHEMA


def test_schema(fake: penstock.Client) -> None:
    assert fake.schema("good") == SCHEMA


def test_explain_and_manifest_send_the_query(fake: penstock.Client) -> None:
    assert fake.explain("good", splits=True) == 'explained in full: {"dataset":"good","wire":"auto"}'
    assert fake.explain("good", lanes=4) == 'explained: {"dataset":"good","lanes":4,"wire":"auto"}'
    scaled = fake.explain("good", lanes=4, scale="trainers=4,step=1s")
    assert (
        scaled == 'scaled: {"query":{"dataset":"good","lanes":4,"wire":"auto"},"scale":"trainers=4,step=1s"}'
    )
    with pytest.raises(penstock.Invalid, match="give one of them"):
        fake.explain("good", splits=True, scale="trainers=4,step=1s")
    later: dict[str, Any] = {"unheard_of": [None]}
    manifest = fake.manifest(
        {"training": {"table": "a.b"}}, shard=(1, 2), order="shuffled", seed=2**63 - 1, **later
    )
    assert manifest["query"] == {
        "dataset": {"training": {"table": "a.b"}},
        "shard": {"index": 1, "of": 2},
        "order": "shuffled",
        "seed": 2**63 - 1,
        "unheard_of": [None],
        "wire": "auto",
    }
    with pytest.raises(penstock.Internal, match="2 results"):
        fake.explain("twice")


def test_verify_sends_the_query_and_gives_the_report(fake: penstock.Client) -> None:
    report = fake.verify("good", filter="a = 1")
    assert report == {"query": {"dataset": "good", "filter": "a = 1"}, "findings": []}


def test_status_has_the_clients_own_streams(fake: penstock.Client) -> None:
    status = fake.status()
    assert (status.version, status.uptime, status.all) == ("0.1.0", 60.0, False)
    assert [status.memory, status.slots, status.plans, status.cache, status.config] == [None] * 5
    (stream,) = status.streams
    assert (stream.job, stream.dataset, stream.shard, stream.shards) == ("sweep-7", "good", 1, 4)
    assert (stream.rows, stream.rows_total, stream.done) == (100, None, 0.25)
    assert stream.started == datetime(2026, 10, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert (stream.open, stream.waiting, stream.parked) == (2.5, "trainer", False)
    assert stream.waited == penstock.Waited(trainer=1.25, slot=0, memory=0, stream=0, storage=0.25)
    assert stream.worked == penstock.Worked(decode=0.5)
    assert stream.reads == penstock.StreamReads(requests=3, took=1.5, sought=2)
    assert stream.limit == penstock.StreamLimit("trainer", 0.5, "", "nothing")
    with pytest.raises(AttributeError):
        stream.rows = 7  # type: ignore[misc]


def test_status_of_all_clients_has_the_servers_parts(fake_address: str) -> None:
    with penstock.connect(fake_address, headers={"status": "all"}) as client:
        status = client.status()
    assert status.all
    assert [stream.dataset for stream in status.streams] == ["good", None]
    inline = status.streams[1]
    assert (inline.subject, inline.lanes, inline.waiting, inline.done) == ("ranker", None, None, 0.25)
    assert status.memory is not None
    assert (status.memory.limit, status.memory.in_flight, status.memory.peak) == (None, 2, 9)
    assert status.slots is not None
    assert (status.slots.limit, status.slots.kept, status.slots.waiting) == (None, 3, 4)
    assert status.plans is not None
    assert status.plans.running == 1
    assert status.cache is None
    assert status.config is not None
    assert (status.config.current, status.config.refused, status.config.error) == (False, 2, "no")
    assert status.config.last == datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("form", "text"), [("newer", "version 2"), ("less", "cannot be read")])
def test_a_status_that_cannot_be_read(fake_address: str, form: str, text: str) -> None:
    with (
        penstock.connect(fake_address, headers={"status": form}) as client,
        pytest.raises(penstock.Internal, match=text),
    ):
        client.status()


def test_token_and_headers_are_sent(fake_address: str) -> None:
    with penstock.connect(fake_address, token="secret") as client:
        assert client.manifest("good")["authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["stranger", "newer", "less", "no endpoints"])
def test_a_server_that_does_not_follow_the_protocol(fake: penstock.Client, name: str) -> None:
    with pytest.raises(penstock.Internal):
        fake.read(name)


def test_error_without_a_server() -> None:
    listens = r"`penstock serve` listens at grpc://127\.0\.0\.1:1$"
    with penstock.connect("127.0.0.1:1") as client, pytest.raises(penstock.Unavailable, match=listens):
        client.datasets()


def test_address_of_another_kind_of_server() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as web:
        serving = threading.Thread(target=web.serve_forever)
        serving.start()
        try:
            address = f"127.0.0.1:{web.server_port}"
            prints = "use the address that `penstock serve` prints"
            with penstock.connect(address) as client, pytest.raises(penstock.Unavailable, match=prints):
                client.datasets()
        finally:
            web.shutdown()
            serving.join()


@pytest.mark.parametrize("uri", ["nonsense://127.0.0.1:1", "grpc://127.0.0.1:port", ""])
def test_faulty_uri(uri: str) -> None:
    with pytest.raises(penstock.Invalid):
        penstock.connect(uri).datasets()


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("127.0.0.1:8815", "grpc://127.0.0.1:8815"),
        ("grpc+tls://host:8815/", "grpc+tls://host:8815/"),
        ("[::1]:8815", "grpc://[::1]:8815"),
        ("host:1", "grpc://host:1"),
        ("grpc+unix:///run/penstock", "grpc+unix:///run/penstock"),
    ],
)
def test_addresses_with_a_port(uri: str, location: str) -> None:
    assert location_of(uri) == location


@pytest.mark.parametrize(
    ("uri", "found", "write"),
    [
        (
            "127.0.0.1",
            "the scheme grpc, and its address has the host 127.0.0.1 and no port",
            "grpc://127.0.0.1:8815",
        ),
        (
            "grpc+tls://host/",
            "the scheme grpc+tls, and its address has the host host and no port",
            "grpc+tls://host:8815",
        ),
        ("[::1]", "has the host ::1 and no port", "grpc://[::1]:8815"),
        ("::1", "is an IPv6 address without brackets, and has no port", "grpc://[::1]:8815"),
        ("fe80::1:8815", "has an IPv6 address without brackets", "grpc://[fe80::1]:8815"),
        (
            "fe80::1:8816",
            "is an IPv6 address without brackets, and has no port",
            "grpc://[fe80::1:8816]:8815",
        ),
        ("8815", "has a port and no host", "grpc://127.0.0.1:8815"),
        (":8815", "names no host", "127.0.0.1:8815"),
        ("host:", "has the host host and no port", "grpc://host:8815"),
        (
            "http://host:1",
            "has the scheme http, and not one of grpc, grpc+tcp, grpc+tls, grpc+unix",
            "grpc://host:1",
        ),
        ("http://host", "has the scheme http, and not one of", "grpc://host:8815"),
        ("unix:///run/p", "has the scheme of a socket, without grpc+", "grpc+unix:///run/p"),
        ("host:port", "has a port that is not a number from 1 to 65535", ""),
        ("host:65536", "has a port that is not a number from 1 to 65535", ""),
        ("host:1:2", "is not of the form host:port", ""),
        ("a:1, b", "'b' has the scheme grpc, and its address has the host b and no port", "grpc://b:8815"),
    ],
)
def test_an_address_that_lacks_something(uri: str, found: str, write: str) -> None:
    """The error says what the address has and lacks, and what to write."""
    with pytest.raises(penstock.Invalid) as caught:
        penstock.connect(uri)
    assert found in str(caught.value)
    assert f"write '{write}'" in str(caught.value) if write else "write" not in str(caught.value)


def test_a_config_file_is_not_an_address() -> None:
    for path in ("penstock.yaml", "/etc/lake.YML"):
        with pytest.raises(penstock.Invalid, match="is a config file") as caught:
            penstock.connect(path)
        assert f"write penstock.open('{path}')" in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["grpc://user:hunter2@host:1", "user:hunter2@host", "grpc://user:hun/ter2@host"]
)
def test_passwords_in_uris_are_not_shown(uri: str) -> None:
    with pytest.raises(penstock.Invalid, match="token") as raised:
        penstock.connect(uri)
    assert "ter2" not in str(raised.value)


def test_time_out(fake_address: str) -> None:
    with penstock.connect(fake_address, timeout=0.2) as client:
        with pytest.raises(
            penstock.Unavailable, match=r"127\.0\.0\.1:\d+ has not answered within 0.2 s"
        ) as caught:
            client.plan("slow")
        assert "longer timeout" in caught.value.remedy


def test_closed_client(fake_address: str) -> None:
    client = penstock.connect(fake_address)
    stream = client.read("good")
    next(stream)
    client.close()
    client.close()
    with pytest.raises(penstock.Invalid, match="closed"):
        next(stream)
    with pytest.raises(penstock.Invalid, match="closed"):
        client.datasets()
    assert "closed" in repr(client)


class Paused:
    """Pauses the next call of a client's thread right before it uses the connection, until the client is closed."""

    def __init__(self, client: penstock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self._client = client
        self._paused, self._go_on = threading.Event(), threading.Event()
        calls = client._servers.current._calls
        watched = calls.watched

        @contextmanager
        def wait() -> Iterator[Any]:
            self._paused.set()
            assert self._go_on.wait(60)
            with watched() as call:
                yield call

        monkeypatch.setattr(calls, "watched", wait)

    def outcome(self, act: Callable[[], Any]) -> Any:
        """What `act` returns or raises in a thread, if the client is closed while its call is paused."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(act())
            except Exception as e:
                found.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        assert self._paused.wait(60)
        self._client.close()
        self._go_on.set()
        thread.join(60)
        return found[0]


def test_calls_continue_while_another_thread_closes_the_client(
    fake_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a call, pyarrow crashes if its client is closed."""
    client = penstock.connect(fake_address)
    listed = Paused(client, monkeypatch).outcome(client.datasets)
    assert [one.name for one in listed] == ["good", "broken"]
    assert client._servers.current.disconnect_if_idle(), "the call has closed the connection that it used"


def test_streams_do_not_begin_while_another_thread_closes_the_client(
    fake_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = penstock.connect(fake_address)
    stream = client.read("endless")
    refused = Paused(client, monkeypatch).outcome(lambda: next(stream))
    assert isinstance(refused, penstock.Invalid)
    assert "the client is closed" in str(refused)
    assert client._servers.current.disconnect_if_idle(), "the stream has closed the connection that it used"


def test_a_read_in_another_thread_ends_when_the_client_is_closed(
    fake_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no broken stream, which would be resumed."""
    client = penstock.connect(fake_address)
    stream = client.read("endless")
    assert len(list(islice(stream, 3))) == 3
    caught: list[Exception] = []

    def read() -> None:
        try:
            next(stream)
        except penstock.Error as e:
            caught.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    while not stream._readings[0]._messages.begun:  # type: ignore[union-attr]
        time.sleep(0.01)
    client.close()
    thread.join(60)
    assert [type(e) for e in caught] == [penstock.Invalid]
    assert "closed" in str(caught[0])
    assert not caplog.records


def test_pickled_client(fake: penstock.Client) -> None:
    with pickle.loads(pickle.dumps(fake)) as client:
        assert client.read("good").read_all().num_rows == ROWS


def test_bounded_lookahead(fake_address: str) -> None:
    with penstock.connect(fake_address, lookahead=1 << 20) as client:
        assert client.read("good").read_all().num_rows == ROWS


def test_threads_share_a_client(fake: penstock.Client) -> None:
    tables: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: tables.append(fake.read("good").read_all())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.num_rows for t in tables] == [ROWS] * 8
