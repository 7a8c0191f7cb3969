"""Streams for asyncio: all batches in order, an event loop that runs on, and streams that end when their task is canceled."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fake_server import BATCH_ROWS, ROWS, SCHEMA, numbers
from server import BINARY

import penstock
from penstock.stream import Stream


async def until(task: asyncio.Task[object], stream: penstock.AsyncStream, batches: int) -> None:
    """Returns when the stream has given this many batches, while the task reads it."""
    while stream.cursor is None or stream.stats.batches < batches:
        await asyncio.sleep(0)
        assert not task.done()


async def read(stream: penstock.AsyncStream) -> list[int]:
    return [n async for batch in stream for n in batch.column("n").to_pylist()]


def test_it_reads_all_batches(fake: penstock.Client) -> None:
    async def reads() -> None:
        stream = fake.read_async("good")
        assert stream.cursor is None
        assert "not planned" in repr(stream)
        with pytest.raises(penstock.Invalid, match="not planned"):
            _ = stream.report
        async with stream:
            assert stream.schema == SCHEMA
            assert await read(stream) == numbers(0, 1)
            assert stream.report["rows"] == ROWS == stream.stats.rows
            assert stream.cursor == stream.report["cursor"]
            with pytest.raises(penstock.Invalid, match="already read to its end"):
                await read(stream)
            with pytest.raises(TypeError, match="async for"):
                iter(stream)
        assert (await fake.read_async("good", limit=100).read_all()).num_rows == 100
        assert len(await read(fake.read_async("good"))) == ROWS

    asyncio.run(reads())


def test_streams_are_read_side_by_side(fake: penstock.Client) -> None:
    async def reads() -> list[list[int]]:
        return await asyncio.gather(*(read(fake.read_async("good", shard=(i, 4))) for i in range(4)))

    assert asyncio.run(reads()) == [numbers(i, 4) for i in range(4)]


def test_the_event_loop_runs_while_a_batch_is_awaited(fake: penstock.Client) -> None:
    """The stream gives three batches and then hangs. The loop goes on, and the canceled task closes the stream."""

    async def reads() -> None:
        stream = fake.read_async("endless")
        task = asyncio.create_task(read(stream))
        await until(task, stream, 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "closed" in repr(stream)
        assert stream.stats.rows == 3 * BATCH_ROWS
        with pytest.raises(penstock.Invalid, match="closed"):
            await anext(stream)

    asyncio.run(reads())


def test_leaving_the_block_closes_the_stream(fake: penstock.Client) -> None:
    async def reads() -> Stream:
        async with fake.read_async("endless") as stream:
            async for _ in stream:
                break
        with pytest.raises(penstock.Invalid, match="closed"):
            await read(stream)
        return stream.stream

    assert "closed" in repr(asyncio.run(reads()))
    gc.collect()


def test_a_stream_that_is_canceled_before_its_plan_is_closed_after_it(fake: penstock.Client) -> None:
    opened: list[Stream] = []
    started, go = asyncio.Event(), asyncio.Event()

    async def reads() -> None:
        loop = asyncio.get_running_loop()

        def opens(closed: threading.Event) -> Stream:
            loop.call_soon_threadsafe(started.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            assert closed.is_set()
            opened.append(fake.read("endless"))
            return opened[0]

        stream = penstock.AsyncStream(opens)
        task = asyncio.create_task(read(stream))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        while not opened or "closed" not in repr(opened[0]):
            await asyncio.sleep(0)

    asyncio.run(reads())


def test_failures_are_raised_where_they_are_awaited(fake: penstock.Client) -> None:
    async def reads() -> None:
        with pytest.raises(penstock.Forbidden):
            async with fake.read_async("raises PERMISSION_DENIED"):
                pass
        stream = fake.read_async("breaks INTERNAL")
        with pytest.raises(penstock.Internal):
            await read(stream)
        with pytest.raises(penstock.Internal):
            await anext(stream)
        never = fake.read_async("good")
        await never.close()
        with pytest.raises(penstock.Invalid, match="closed, and was not read"):
            await anext(never)

    asyncio.run(reads())


def test_the_module_runs_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(BINARY.parent))
    command = [sys.executable, "-m", "penstock"]
    said = subprocess.run([*command, "version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith(f"penstock {penstock.__version__}")
    wrong = subprocess.run([*command, "explain", "--nothing"], capture_output=True, text=True, check=False)
    direct = subprocess.run(
        [str(BINARY), "explain", "--nothing"], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (
        direct.returncode,
        direct.stdout,
        direct.stderr,
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    none = subprocess.run(command, capture_output=True, text=True, check=False)
    assert none.returncode == 1
    assert none.stderr.startswith("penstock: there is no program penstock")
