"""Which threads a fork waits for."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from pathlib import Path

import pytest

from penstock import grpc_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are listed on Linux only")

LONG = 60.0


def test_a_thread_of_grpc_is_waited_for_within_the_limit() -> None:
    end = threading.Event()

    def work() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("grpc_shutdown")
        named.set()
        end.wait(LONG)

    named = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert named.wait(LONG)
    known = grpc_threads.all_threads()
    assert not grpc_threads.ended(0.01, known)
    threading.Timer(0.05, end.set).start()
    assert grpc_threads.ended(LONG, known)
    thread.join(LONG)


# Threads of this kind are as unknown to Python's threading module as those of gRPC.
def test_a_new_thread_without_a_name_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_threads, "_UNNAMED_LIMIT", LONG)
    known, done = grpc_threads.all_threads(), threading.Event()

    def work() -> None:
        time.sleep(0.05)
        done.set()

    _thread.start_new_thread(work, ())
    assert grpc_threads.ended(0.0, known)
    assert done.is_set()


def test_a_thread_that_stays_is_not_of_grpc() -> None:
    known, end, ended = grpc_threads.all_threads(), threading.Event(), threading.Event()

    def work() -> None:
        end.wait(LONG)
        ended.set()

    _thread.start_new_thread(work, ())
    before = set(known)
    assert grpc_threads.ended(0.0, known)
    assert not ended.is_set()
    assert len(known - before) == 1
    end.set()
    assert ended.wait(LONG)
