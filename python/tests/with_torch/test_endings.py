"""However reading ends, nothing is left: no thread, no stream on the server, no word on standard error."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader
from trained import Served, rows, served

import penstock
from penstock.messages import Messages

LIMIT = 20.0
# Batches of four wide rows, 38 MB in all, which is more than a connection
# holds: a stream that is left alone is not done before it is looked at.
SMALL: Any = {
    "global_batch_rows": 4,
    "prefetch": 2,
    "columns": ["row", "label", "wide"],
    "nulls": {"row": "error", "label": -1, "wide": "empty"},
}

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@dataclass(frozen=True)
class Watched(Served):
    """A server that says how many streams are open."""

    metrics: str

    def sum(self, metric: str) -> float:
        """What a metric of the server says now, over all of its labels."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(metric + "{"))

    def open(self) -> float:
        """How many streams are open on the server."""
        return self.sum("penstock_streams_open")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    with served(tmp_path_factory.mktemp("endings") / "lake", "--metrics", metrics, wide=4000) as found:
        yield Watched(found.address, found.lake, metrics)


def becomes(what: Callable[[], Any], wanted: Any) -> None:
    """Waits until something is so."""
    limit = time.monotonic() + LIMIT
    while (found := what()) != wanted:
        assert time.monotonic() < limit, f"{found}, not {wanted}"
        time.sleep(0.02)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "penstock"]


def check_nothing_is_left(here: Watched) -> None:
    gc.collect()
    assert threads() == []
    becomes(here.open, 0.0)


# spec: trainer-9
@pytest.mark.parametrize("prefetch", [0, 2])
def test_leaving_the_loop_closes_everything(here: Watched, prefetch: int) -> None:
    ds = here.dataset(**{**SMALL, "prefetch": prefetch})
    for _ in ds:
        assert len(threads()) == bool(prefetch)
        break
    check_nothing_is_left(here)
    with pytest.raises(ZeroDivisionError):
        for _ in ds:
            raise ZeroDivisionError
    check_nothing_is_left(here)
    iterator = iter(ds)
    next(iterator)
    becomes(here.open, 1.0)
    iterator.close()
    check_nothing_is_left(here)
    with pytest.raises(penstock.Invalid, match="the iterator was closed"):
        next(iterator)
    assert len(rows(ds)) == 300
    check_nothing_is_left(here)


# spec: trainer-9
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_failure_while_a_batch_is_made(here: Watched, prefetch: int) -> None:
    def interrupted(batch: Any) -> Any:
        if batch.step == 3:
            raise KeyboardInterrupt
        return batch

    ds = here.dataset(**{**SMALL, "prefetch": prefetch}, transform=interrupted)
    iterator = iter(ds)
    with pytest.raises(KeyboardInterrupt):
        list(iterator)
    check_nothing_is_left(here)
    with pytest.raises(penstock.Invalid, match="closed"):
        next(iterator)
    assert ds.state_dict()["cursor"]["step"] == 3
    del iterator
    check_nothing_is_left(here)


def test_close_from_another_thread_ends_a_blocked_loop(here: Watched) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def stuck(batch: Any) -> Any:
        entered.set()
        assert go_on.wait(LIMIT)
        return batch

    iterator = iter(here.dataset(**SMALL, transform=stuck))
    failures: list[Any] = []

    def loop() -> None:
        try:
            next(iterator)
        except penstock.Invalid as e:
            failures.append(str(e))

    waiting = threading.Thread(target=loop)
    waiting.start()
    assert entered.wait(LIMIT)
    closing = threading.Thread(target=iterator.close)
    closing.start()
    go_on.set()
    closing.join(LIMIT)
    waiting.join(LIMIT)
    assert ["closed" in failure for failure in failures] == [True]
    check_nothing_is_left(here)


# spec: trainer-9
@pytest.mark.parametrize("persistent", [False, True])
def test_abandoned_workers_close_their_streams(here: Watched, persistent: bool) -> None:
    made = DataLoader(here.dataset(**SMALL), batch_size=None, num_workers=2, persistent_workers=persistent)
    iterator = iter(made)
    next(iterator)
    becomes(here.open, 2.0)
    del iterator, made
    check_nothing_is_left(here)


ENDINGS = {
    "the end of the program": "",
    "the end of a program that reads when asked": "ds._prefetch = 0; direct = iter(ds); next(direct)",
    "a reference cycle": "cycle = [iterator]; cycle.append(cycle)",
    "a fork that ends": "pid = os.fork()\nif pid:\n    assert os.waitpid(pid, 0)[1] == 0",
}


# spec: trainer-9
@pytest.mark.parametrize("ending", ENDINGS)
def test_interpreter_exit_closes_everything(here: Watched, ending: str) -> None:
    program = f"""
        import os
        from penstock.torch import IterableDataset
        ds = IterableDataset({here.address!r}, "d", columns=["row"], nulls="error", batch_rows=4)
        iterator = iter(ds)
        next(iterator)
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + ENDINGS[ending]],
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
    )
    assert (process.returncode, process.stderr) == (0, "")
    becomes(here.open, 0.0)


# spec: trainer-51
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_end_with_a_parent_that_is_killed_before_they_begin(
    here: Watched, tmp_path: Path, workers: int
) -> None:
    program = f"""
        import os, time
        from pathlib import Path
        from penstock.torch import IterableDataset
        from torch.utils.data import DataLoader

        def outlive(worker):
            parent = os.getppid()
            Path({str(tmp_path)!r}, str(os.getpid())).touch()
            while os.getppid() == parent:
                time.sleep(0.01)

        ds = IterableDataset({here.address!r}, "d", columns=["row"], nulls="error", batch_rows=4)
        next(iter(DataLoader(ds, batch_size=None, num_workers={workers}, worker_init_fn=outlive)))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    becomes(lambda: len(list(tmp_path.iterdir())), workers)
    process.kill()
    process.wait()
    becomes(lambda: sum(runs(int(found.name)) for found in tmp_path.iterdir()), 0)
    becomes(here.open, 0.0)


def runs(process: int) -> bool:
    """Whether a process runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def test_iterator_from_before_a_fork_raises(here: Watched) -> None:
    iterator = iter(here.dataset(**SMALL))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except penstock.Invalid as e:
            os._exit(0 if "before this process was forked" in str(e) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert sum(1 for _ in iterator) == 299
    check_nothing_is_left(here)


def test_partially_constructed_stream_is_freed_without_errors() -> None:
    half = Messages.__new__(Messages)
    del half
    gc.collect()


class Heard:
    """Replaces `Client._tell`, and records the messages."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.failure = failure

    def __call__(self, client: Any, name: str, message: dict[str, Any], *, timeout: float) -> None:
        del client
        assert timeout <= 1
        self.told.append((name, message))
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize("prefetch", [0, 2])
def test_waiting_time_is_reported_to_the_server(
    here: Watched, prefetch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr(penstock.Client, "_tell", lambda *a, **k: heard(*a, **k))
    monkeypatch.setattr("penstock.torch.meter._EVERY", 0.0)
    ds = here.dataset(prefetch=prefetch)
    plan = ds.plan().id
    assert len(rows(ds)) == 10
    assert {name for name, _ in heard.told} == {"stall"}
    assert {(message["dataset"], message["plan"]) for _, message in heard.told} == {("d", plan)}
    for field, total in (("rows", 1200), ("batches", 10)):
        assert sum(message[field] for _, message in heard.told) == total
    for field in ("seconds", "waited"):
        told = sum(message[field] for _, message in heard.told)
        assert 0 < told <= getattr(ds.stats(), field) + 1e-9
    assert len(heard.told) > 1


def test_server_metrics_show_how_the_loop_waited(here: Watched) -> None:
    names = {
        name: f"penstock_trainer_{name}_total" for name in ("rows", "batches", "seconds", "waited_seconds")
    }
    before = {name: here.sum(metric) for name, metric in names.items()}
    ds = here.dataset()
    assert len(rows(ds)) == 10
    gone = {name: here.sum(metric) - before[name] for name, metric in names.items()}
    assert (gone["rows"], gone["batches"]) == (1200, 10)
    assert gone["seconds"] == pytest.approx(ds.stats().seconds, abs=1e-3)
    assert gone["waited_seconds"] == pytest.approx(ds.stats().waited, abs=1e-3)


# spec: trainer-18
@pytest.mark.parametrize("passing", [penstock.Unavailable("no time"), penstock.Exhausted("no room")])
def test_busy_server_gets_reports_later(
    here: Watched, monkeypatch: pytest.MonkeyPatch, passing: penstock.Error
) -> None:
    heard = Heard(passing)
    monkeypatch.setattr(penstock.Client, "_tell", lambda *a, **k: heard(*a, **k))
    monkeypatch.setattr("penstock.torch.meter._EVERY", 0.0)
    assert len(rows(here.dataset())) == 10
    assert len(heard.told) > 1
    assert heard.told[-1][1]["rows"] == 1200, "rows of a failed report are in the next one"


# spec: trainer-18
def test_report_failures_are_silent(here: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(penstock.Invalid("unknown action"))
    monkeypatch.setattr(penstock.Client, "_tell", lambda *a, **k: heard(*a, **k))
    monkeypatch.setattr("penstock.torch.meter._EVERY", 0.0)
    assert len(rows(here.dataset())) == 10
    assert len(heard.told) == 1


def test_epoch_is_reported_at_its_end_to_any_server(here: Watched, caplog: Any) -> None:
    caplog.set_level("DEBUG", "penstock")
    assert len(rows(here.dataset())) == 10
    assert [record.levelname for record in caplog.records if "waiting time" in record.message] in (
        [],
        ["DEBUG"],
    )
    check_nothing_is_left(here)


def test_reporting_to_a_stopped_server_is_silent(here: Watched) -> None:
    del here
    with penstock.connect("127.0.0.1:1", reconnect=0.0) as client, pytest.raises(penstock.Unavailable):
        client._tell("stall", {"rows": 1}, timeout=0.5)
