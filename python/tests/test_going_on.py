"""Streams that resume after a failure of a fake server."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_server import BATCH_ROWS, ROWS, numbers
from test_fork import in_child

import penstock

pytestmark = pytest.mark.usefixtures("in_order")


@pytest.fixture
def lasting(fake_address: str) -> Iterator[penstock.Client]:
    """A client whose streams are tried again."""
    with penstock.connect(fake_address, timeout=30, reconnect=60) as client:
        yield client


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "penstock" and r.levelno == logging.WARNING]


@pytest.mark.parametrize(
    "how",
    [
        "UNAVAILABLE",
        "CANCELLED",
        'RESOURCE_EXHAUSTED {"kind": "exhausted", "message": "no place", "retry_after_ms": 10}',
        'UNAVAILABLE {"kind": "unavailable", "message": "the server is ending"}',
    ],
)
def test_stream_resumes_where_it_broke(
    lasting: penstock.Client, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    whole = [(batch, cursor) for batch, cursor in pairs(lasting.read("good"))]
    stream = lasting.read(f"breaks {how}")
    assert list(pairs(stream)) == whole
    assert len(whole) == len(stream)
    lines = warnings(caplog)
    assert len(lines) == 2 * stream.stats.resumed == 10  # it breaks behind each third batch, and resumes
    assert "broke after 192 rows; retry 1 in" in lines[0]
    assert all("resumed after" in line for line in lines[1::2])
    report = stream.report
    assert (report["rows"], report["batches"], report["cursor"]) == (ROWS, 16, whole[-1][1])
    assert [(part["rows"], part["batches"]) for part in report["parts"]] == [(192, 3)] * 5 + [(40, 1)]
    assert [part["cursor"] for part in report["parts"]] == [c for _, c in (*whole[2:15:3], whole[-1])]
    assert all(part["ended"] for part in report["parts"][:-1])
    assert stream.cursor == whole[-1][1]
    assert json.loads(json.dumps(report)) == report


# spec: wire-58
@pytest.mark.parametrize("name", ["breaks UNAVAILABLE", "moved"])
def test_programs_may_change_the_cursors_that_they_get(lasting: penstock.Client, name: str) -> None:
    """A cursor is decoded once, and belongs to the program: the stream resumes from its own copy."""
    stream = lasting.read(name)
    rows: list[int] = []
    for batch in stream:
        rows += batch.column("n").to_pylist()
        assert isinstance(stream.cursor, dict)
        assert stream.cursor is stream.cursor
        assert stream.cursor["rows"] == len(rows)
        stream.cursor.clear()
    assert rows == numbers(0, 1)
    assert all(part["cursor"]["rows"] <= ROWS for part in stream.report["parts"])


def pairs(stream: penstock.Stream) -> Iterator[tuple[Any, Any]]:
    """A stream's batches with the cursor after each."""
    for batch in stream:
        yield batch, stream.cursor


def test_each_of_several_shards_resumes(lasting: penstock.Client) -> None:
    stream = lasting.read("breaks UNAVAILABLE", shard={"of": 3})
    assert stream.read_all().column("n").to_pylist() == numbers(0, 3) + numbers(1, 3) + numbers(2, 3)
    assert isinstance(stream.cursor, list)
    assert [c["shard"]["index"] for c in stream.cursor] == [0, 1, 2]
    assert stream.report["rows"] == ROWS
    assert [shard["rows"] for shard in stream.report["shards"]] == [334, 333, 333]
    # Each has six batches: it breaks behind the third, and behind the last, before its report.
    for shard in stream.report["shards"]:
        assert [part["batches"] for part in shard["parts"]] == [3, 3, 0]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", penstock.Invalid),
        ("NOT_FOUND", penstock.NotFound),
        ("UNAUTHENTICATED", penstock.Unauthenticated),
        ("PERMISSION_DENIED", penstock.Forbidden),
        ("FAILED_PRECONDITION", penstock.Expired),
        ("ABORTED", penstock.Conflict),
        ("RESOURCE_EXHAUSTED", penstock.Exhausted),
        ("DATA_LOSS", penstock.Corrupt),
        ("INTERNAL", penstock.Internal),
    ],
)
def test_permanent_errors_are_raised_at_once(
    lasting: penstock.Client, caplog: pytest.LogCaptureFixture, code: str, kind: type[penstock.Error]
) -> None:
    stream = lasting.read(f"breaks {code}")
    for _ in range(3):
        next(stream)
    with pytest.raises(kind):
        next(stream)
    assert not warnings(caplog)


@pytest.mark.parametrize("name", ["cut", "no report", "miscounted", "malformed"])
def test_corrupt_streams_are_not_retried(
    lasting: penstock.Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with pytest.raises(penstock.Corrupt):
        lasting.read(name).read_all()
    assert not warnings(caplog)


@pytest.mark.parametrize(
    ("name", "kind", "text", "rows", "resumed"),
    [
        ("seam repeats", penstock.Corrupt, "went on at step 3, instead of step 4", 192, 1),
        ("seam skips", penstock.Corrupt, "went on at step 5, instead of step 4", 192, 1),
        ("seam loses", penstock.Corrupt, "planned 1000 rows, but 936 arrived", 936, 1),
        ("seam other plan", penstock.Expired, "its plan was p, and is q now", 192, 0),
        ("seam other schema", penstock.Corrupt, "its schema has changed", 192, 0),
    ],
)
def test_what_does_not_fit_behind_a_seam_is_refused(
    lasting: penstock.Client, name: str, kind: type[penstock.Error], text: str, rows: int, resumed: int
) -> None:
    stream = lasting.read(name)
    seen: list[int] = []
    with pytest.raises(kind, match=text):
        for batch in stream:
            seen += batch.column("n").to_pylist()
    assert seen == numbers(0, 1)[:rows]
    with pytest.raises(kind):
        next(stream)
    assert stream.stats.resumed == resumed


def test_an_unknown_ticket_is_planned_again(lasting: penstock.Client) -> None:
    stream = lasting.read("stale")
    assert stream.read_all().column("n").to_pylist() == numbers(0, 1)
    assert "parts" not in stream.report
    never = lasting.read("stale forever")
    with pytest.raises(penstock.Expired, match="other keys"):
        next(never)


def test_retry_delays_grow(lasting: penstock.Client, caplog: pytest.LogCaptureFixture) -> None:
    stream = lasting.read("down 4")
    assert stream.read_all().column("n").to_pylist() == numbers(0, 1)
    *lines, last = warnings(caplog)
    assert "resumed after" in last
    waits = [float(line.partition("; retry ")[2].split(" in ")[1].split(" s")[0]) for line in lines]
    assert len(waits) == 5
    assert stream.stats.resumed == 1
    for i, wait in enumerate(waits):
        assert 0.05 * 2**i - 0.06 <= wait <= 0.1 * 2**i + 0.06


def test_retries_end_after_the_limit(fake_address: str) -> None:
    with penstock.connect(fake_address, reconnect=0.4) as client:
        stream = client.read("down forever")
        for _ in range(3):
            next(stream)
        with pytest.raises(penstock.Unavailable) as caught:
            next(stream)
        assert "Retried" in caught.value.__notes__[0]
        assert isinstance(stream.cursor, dict)
        assert stream.cursor["rows"] == 3 * BATCH_ROWS
        with pytest.raises(penstock.Unavailable):
            next(stream)


def test_closing_ends_the_wait(lasting: penstock.Client, caplog: pytest.LogCaptureFixture) -> None:
    stream = lasting.read("down forever")
    for _ in range(3):
        next(stream)
    caught: list[penstock.Error] = []

    def read() -> None:
        try:
            next(stream)
        except penstock.Error as e:
            caught.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    while not warnings(caplog):
        threading.Event().wait(0.01)
    stream.close()
    thread.join(20)
    assert not thread.is_alive()
    assert [type(e) for e in caught] == [penstock.Unavailable]


def test_addresses_are_tried_in_turn(fake_address: str) -> None:
    for uris in (["127.0.0.1:1", fake_address], f"127.0.0.1:1, {fake_address}"):
        with penstock.connect(uris, reconnect=0) as client:
            assert client.read("good").read_all().num_rows == ROWS
            assert [d.name for d in client.datasets()] == ["good", "broken"]
            assert fake_address in repr(client)
            with pytest.raises(penstock.NotFound):
                client.plan("raises NOT_FOUND")
            with pytest.raises(penstock.Unavailable):
                client.plan("raises UNAVAILABLE")
    with penstock.connect(["127.0.0.1:1", "127.0.0.1:2"]) as client, pytest.raises(penstock.Unavailable):
        client.datasets()


def test_the_failure_of_a_stream_names_its_server(fake_address: str) -> None:
    failure = 'breaks PERMISSION_DENIED {"kind": "forbidden", "message": "not this column"}'
    for addresses, name in (
        ((fake_address,), ""),
        ((fake_address, "grpc://127.0.0.1:1"), f"grpc://{fake_address}: "),
    ):
        with penstock.connect(addresses) as client, pytest.raises(penstock.Forbidden) as caught:
            list(client.read(failure))
        assert str(caught.value) == f"{name}not this column"


@pytest.mark.parametrize("uris", [[], "", ["a:1", ""], "a:1,,b:1"])
def test_faulty_addresses(uris: Any) -> None:
    with pytest.raises(penstock.Invalid, match="uri"):
        penstock.connect(uris)
    with pytest.raises(penstock.Invalid, match="reconnect"):
        penstock.connect("a:1", reconnect=-1)


def test_a_broken_stream_leaves_the_others_alone(lasting: penstock.Client) -> None:
    """A connection that one stream found broken is not taken from under another one."""
    other = lasting.read("good")
    seen = next(other).column("n").to_pylist()
    assert lasting.read("breaks UNAVAILABLE").read_all().num_rows == ROWS
    assert seen + other.read_all().column("n").to_pylist() == numbers(0, 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_process_can_fork_after_a_stream_resumed(lasting: penstock.Client) -> None:
    stream = lasting.read("breaks UNAVAILABLE")
    for _ in range(5):
        next(stream)

    def fails() -> None:
        with pytest.raises(penstock.Invalid, match="forked"):
            next(stream)

    assert in_child(fails) == 0
    assert 5 * BATCH_ROWS + stream.read_all().num_rows == ROWS

    def reads() -> None:
        assert lasting.read("breaks UNAVAILABLE").read_all().num_rows == ROWS

    assert in_child(reads) == 0


# spec: trainer-46
@pytest.mark.parametrize("name", ["good", "breaks UNAVAILABLE"])
@pytest.mark.parametrize("query", [{}, {"shard": {"of": 3}}, {"shard": (1, 3)}, {"limit": 192}])
def test_every_report_has_staging_and_partial(
    lasting: penstock.Client, name: str, query: dict[str, Any]
) -> None:
    stream = lasting.read(name, **query)
    stream.read_all()
    report = stream.report
    ends = [shard["parts"][-1] if "parts" in shard else shard for shard in report.get("shards", [report])]
    # No row is left after a limit, so that the last connection has no report. Those that broke have none.
    matched = sum(end["rows"] for end in ends if "ended" not in end)
    assert report["staging"]["features"]["matched"] == matched
    for one in [report, *report.get("shards", [])]:
        assert one["partial"] is (name != "good")
        assert one["staging"]["features"]["rows"] >= 0


# spec: wire-58
@pytest.mark.parametrize("name", ["moved", "moves once"])
def test_streams_that_move(lasting: penstock.Client, caplog: pytest.LogCaptureFixture, name: str) -> None:
    stream = lasting.read(name)
    assert stream.read_all()["n"].to_pylist() == list(range(ROWS))
    assert (stream.stats.moved, stream.stats.resumed) == (1, 0)
    assert not warnings(caplog)


# spec: wire-58
def test_streams_that_only_move(
    fake_address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one try at once, the delays are those after a failure."""
    monkeypatch.setattr("penstock.interruption._QUIET", 0.0)
    with penstock.connect(fake_address, reconnect=0.3) as client:
        stream = client.read("moves ever")
        with pytest.raises(penstock.Unavailable, match="is shutting down"):
            next(stream)
    assert stream.stats.moved >= 1
    assert 1 <= len(warnings(caplog)) < 10
