"""Streams, against a fake server: what they give, and how they break."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from fake_server import BATCH_ROWS, ROWS, SCHEMA, SNAPSHOT, numbers

import penstock


def test_iterates_batches(fake: penstock.Client) -> None:
    seen: list[int] = []
    with fake.read("good") as stream:
        assert stream.schema == SCHEMA
        assert stream.cursor is None
        for batch in stream:
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema == SCHEMA
            seen += batch.column("n").to_pylist()
            assert isinstance(stream.cursor, dict)
            assert stream.cursor["rows"] == len(seen)
            assert stream.cursor["pin"]["training"]["snapshot"] == SNAPSHOT
        assert stream.report["rows"] == ROWS
        assert stream.cursor == stream.report["cursor"]
    assert seen == numbers(0, 1)
    with pytest.raises(StopIteration):
        next(stream)


def test_report_is_available_only_at_the_end(fake: penstock.Client) -> None:
    stream = fake.read("good")
    next(stream)
    with pytest.raises(penstock.Invalid, match="no report"):
        _ = stream.report
    stream.close()
    with pytest.raises(penstock.Invalid, match="no report"):
        _ = stream.report


@pytest.mark.parametrize("form", [lambda c: c, json.dumps, lambda c: json.dumps(c).encode(), lambda c: [c]])
def test_resumes_from_any_cursor_in_any_form(fake: penstock.Client, form: Any) -> None:
    stream = fake.read("good")
    seen: list[int] = []
    for batch in stream:
        seen += batch.column("n").to_pylist()
        rest = fake.read("good", cursor=form(stream.cursor))
        assert rest.cursor in (stream.cursor, [stream.cursor])
        assert seen + rest.read_all().column("n").to_pylist() == numbers(0, 1)


def test_several_shards_come_one_after_the_other(fake: penstock.Client) -> None:
    stream = fake.read("good", shard={"of": 3})
    seen = stream.read_all().column("n").to_pylist()
    assert seen == numbers(0, 3) + numbers(1, 3) + numbers(2, 3)
    assert isinstance(stream.cursor, list)
    assert [c["shard"]["index"] for c in stream.cursor] == [0, 1, 2]
    assert (stream.report["rows"], stream.report["batches"]) == (ROWS, 18)
    assert [r["rows"] for r in stream.report["shards"]] == [334, 333, 333]
    again = fake.read("good", shard={"of": 3}, cursor=stream.cursor)
    assert again.read_all().num_rows == 0


def test_to_reader_draws_from_the_stream(fake: penstock.Client) -> None:
    stream = fake.read("good")
    reader = stream.to_reader()
    assert reader.schema == SCHEMA
    reader.read_next_batch()
    assert isinstance(stream.cursor, dict)
    assert stream.cursor["rows"] == BATCH_ROWS
    assert reader.read_all().num_rows == ROWS - BATCH_ROWS
    reader = fake.read("cut").to_reader()
    with pytest.raises(penstock.Corrupt):
        reader.read_all()


def test_batches_outlive_their_stream(fake: penstock.Client) -> None:
    with fake.read("good") as stream:
        batches = list(stream)
    assert pa.Table.from_batches(batches).column("n").to_pylist() == numbers(0, 1)


@pytest.mark.parametrize(
    ("name", "batches", "text"),
    [
        ("cut", 3, "without its report"),
        ("no report", 16, "without its report"),
        ("miscounted", 16, "1001 rows"),
        ("two reports", 16, "neither a batch nor its report"),
        ("strange message", 16, "neither a batch nor its report"),
        ("late batch", 16, "after the stream's last message"),
        ("moved short", 3, "moved after 4 batches, 3 of which arrived"),
        ("moved elsewhere", 3, "moved after 3 batches"),
        ("moved late", 3, "after the stream's last message"),
        ("no cursor", 0, "without its cursor"),
        ("other schema", 0, "schema"),
        ("malformed", 3, None),
    ],
)
def test_incomplete_stream_raises(fake: penstock.Client, name: str, batches: int, text: str | None) -> None:
    stream = fake.read(name)
    for _ in range(batches):
        next(stream)
    for _ in range(2):  # and again if asked again
        with pytest.raises(penstock.Corrupt, match=text):
            next(stream)
    with pytest.raises(penstock.Invalid, match="no report"):
        _ = stream.report
    with pytest.raises(penstock.Corrupt):
        fake.read(name).read_all()


def test_a_stream_that_breaks_keeps_its_cursor(fake: penstock.Client) -> None:
    details = {"kind": "corrupt", "message": "page 3", "file": "a.parquet", "row_group": 0}
    stream = fake.read("breaks DATA_LOSS " + json.dumps(details))
    for _ in range(3):
        next(stream)
    with pytest.raises(penstock.Corrupt) as caught:
        next(stream)
    assert (caught.value.file, caught.value.row_group) == ("a.parquet", 0)
    assert isinstance(stream.cursor, dict)
    assert stream.cursor["rows"] == 3 * BATCH_ROWS


def test_closed_stream_does_not_look_finished(fake: penstock.Client) -> None:
    stream = fake.read("good")
    next(stream)
    stream.close()
    stream.close()
    with pytest.raises(penstock.Invalid, match="closed"):
        next(stream)
    assert stream.cursor is not None


def test_close_ends_a_read_in_another_thread(fake: penstock.Client) -> None:
    stream = fake.read("endless")
    for _ in range(3):
        next(stream)
    started, caught = threading.Event(), []

    def read() -> None:
        started.set()
        try:
            next(stream)
        except penstock.Error as e:
            caught.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    started.wait()
    stream.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(caught) == 1


def test_two_threads_do_not_read_one_stream(fake: penstock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would abort the process inside gRPC; the thread that reads continues, and no batch is lost."""
    stream = fake.read("good")
    reading = stream._readings[0]
    begun, go_on, given = threading.Event(), threading.Event(), []
    read = reading.next

    def slow() -> pa.RecordBatch | None:
        begun.set()
        assert go_on.wait(60)
        return read()

    monkeypatch.setattr(reading, "next", slow)
    thread = threading.Thread(target=lambda: given.append(next(stream)))
    thread.start()
    assert begun.wait(60)
    with pytest.raises(penstock.Invalid, match="another thread is reading this stream; guard it with a lock"):
        next(stream)
    go_on.set()
    thread.join(60)
    assert sum(batch.num_rows for batch in [*given, *stream]) == ROWS


# spec: trainer-47
def test_second_loop_over_a_stream_is_refused(fake: penstock.Client) -> None:
    stream = fake.read("good")
    assert sum(batch.num_rows for batch in stream) == ROWS
    again: list[Callable[[], object]] = [
        lambda: list(stream),
        lambda: iter(stream),
        stream.to_reader,
        stream.expanded,
        stream.read_all,
        lambda: pa.table(stream),
    ]
    for read in again:
        with pytest.raises(penstock.Invalid, match="the stream was already read to its end"):
            read()
    with pytest.raises(StopIteration):
        next(stream)
    stream.close()
    with pytest.raises(penstock.Invalid, match="already read to its end"):
        iter(stream)


def test_one_iterator_may_be_used_after_the_end(fake: penstock.Client) -> None:
    remaining = iter(fake.read("good"))
    found: list[int] = []
    while batches := list(islice(remaining, 3)):
        found += [batch.num_rows for batch in batches]
    assert sum(found) == ROWS
    assert list(remaining) == []


def test_loop_over_the_rest_of_a_stream_begins_where_the_first_one_stopped(fake: penstock.Client) -> None:
    stream = fake.read("good")
    for batch in stream:
        first = batch.num_rows
        break
    assert first + sum(batch.num_rows for batch in stream) == ROWS


# spec: trainer-47
@pytest.mark.parametrize("module", ["pandas", "numpy"])
def test_stream_does_not_become_an_array_of_batches(fake: penstock.Client, module: str) -> None:
    library = pytest.importorskip(module)
    make = library.DataFrame if module == "pandas" else library.asarray
    with fake.read("good") as stream:
        with pytest.raises(TypeError, match=r"use to_pandas\(\)"):
            make(stream)
        assert stream.read_all().num_rows == ROWS
