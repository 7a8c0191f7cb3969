"""Stages that fail in the middle, and those that are repeated."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from server import Server
from stage_house import TABLE, House, batches, table

import penstock
from penstock.staging import new_token


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def test_failures_in_the_middle_write_nothing(house: House, client: penstock.Client) -> None:
    """A generator that fails leaves the table as it is, and its exception is raised.

    spec: stage-77
    """
    client.stage(TABLE, table(), key=["id"], buckets=2)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        raise ZeroDivisionError

    for progress in (None, lambda _: None):
        with pytest.raises(ZeroDivisionError):
            client.stage(TABLE, failing(), progress=progress)
    assert client.stage(TABLE, table(10, 12)).rows == 2
    assert house.snapshots() == 2


def test_stage_ends_at_its_next_batch_if_the_client_is_closed(house: House, client: penstock.Client) -> None:
    """Nothing is written then. Closing must not end the call meanwhile: pyarrow crashes if two threads use a writer."""
    client.stage(TABLE, table(), key=["id"], buckets=2)

    def closing() -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        thread = threading.Thread(target=client.close)
        thread.start()
        thread.join(60)
        yield from batches(table(20, 30))

    with pytest.raises(penstock.Invalid, match="the client was closed while it was sending rows"):
        client.stage(TABLE, closing())
    assert client._servers.current.disconnect_if_idle(), "the call has closed the connection that it used"
    assert house.snapshots() == 1
    assert house.rows() == table().to_pylist()


def test_plain_flight_needs_the_number_of_rows(house: House, client: penstock.Client) -> None:
    """A writer of pyarrow that is only closed, or lost, writes nothing.

    spec: stage-61
    """
    client.stage(TABLE, table(), key=["id"], buckets=2)
    plain = flight.connect(client.uri)
    descriptor = flight.FlightDescriptor.for_command(b'{"stage": {"table": "features.history"}}')
    writer, answers = plain.do_put(descriptor, table().schema)
    writer.write_table(table(10, 20))
    with pytest.raises(pa.ArrowInvalid, match="without the message"):
        writer.close()
    writer, answers = plain.do_put(descriptor, table().schema)
    assert answers.read() is not None
    writer.write_table(table(10, 20))
    del writer, answers
    assert house.snapshots() == 1
    writer, answers = plain.do_put(descriptor, table().schema)
    writer.write_table(table(10, 20))
    writer.write_metadata(b'{"rows": 10}')
    writer.done_writing()
    while answers.read() is not None:
        pass
    writer.close()
    plain.close()
    assert house.rows() == table(0, 20).to_pylist()


class Restarted:
    """Rows in whose middle the server is killed, and another one started in its place."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.server = Server(house.config)
        self.server.__enter__()
        self.address = self.server.address
        self.times = 0

    def __call__(self) -> Iterator[pa.RecordBatch]:
        yield from batches(table(10, 20))
        self.times += 1
        if self.times == 1:
            self.server.kill()
            self.server = Server(self.house.config, listen=self.address)
            self.server.__enter__()
        yield from batches(table(20, 30))


def test_calls_are_repeated_if_the_server_restarts(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Rows that can be read again are sent again, with the same token and a warning; of others, the error says how to continue.

    spec: stage-78
    """
    rows = Restarted(house)
    try:
        with penstock.connect(rows.address, reconnect=60) as client:
            client.stage(TABLE, table(), key=["id"], buckets=2)
            token = new_token()
            assert client.stage(TABLE, rows, token=token).token == token
            assert rows.times == 2
            assert "a call failed; retry 1 in " in caplog.text
            assert house.rows() == table(0, 30).to_pylist()
            rows.times = 0
            with pytest.raises(penstock.Unavailable, match="can be read once: call stage again") as failure:
                client.stage(TABLE, rows())
            assert failure.value.token in str(failure.value)
            assert house.snapshots() == 2
            assert client.stage(TABLE, table(10, 12), token=failure.value.token).rows == 2
    finally:
        rows.server.kill()


class Closing(logging.Handler):
    """Closes a client, in a thread, when a retry is logged."""

    def __init__(self, client: penstock.Client) -> None:
        super().__init__()
        self.thread = threading.Thread(target=client.close)

    def emit(self, record: logging.LogRecord) -> None:
        assert "a call failed; retry 1 in " in record.getMessage()
        self.thread.start()


def test_closing_the_client_ends_the_wait_for_a_retry(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_WAIT", "MAX_WAIT"):
        monkeypatch.setattr(f"penstock.backoff.{name}", 7200.0)
    with Server(house.config) as server, penstock.connect(server.address, reconnect=10_000) as client:
        assert len(client.datasets()) == 1
        server.kill()
        closing = Closing(client)
        logging.getLogger("penstock").addHandler(closing)
        try:
            with pytest.raises(
                penstock.Unavailable, match=r"call stage again with token=.* and the same rows"
            ):
                client.stage(TABLE, table())
        finally:
            logging.getLogger("penstock").removeHandler(closing)
        closing.thread.join()


# spec: stage-78
@pytest.mark.usefixtures("in_order")
def test_calls_to_an_address_without_a_server_fail_at_once() -> None:
    with (
        penstock.connect(["127.0.0.1:1", "127.0.0.1:2"]) as client,
        pytest.raises(penstock.Unavailable, match=r"listens at grpc://127\.0\.0\.1:2$") as failure,
    ):
        client.stage(TABLE, table())
    assert failure.value.token
