"""Locks of what follows streams, which the garbage collector may take in any thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import following
from penstock.following import Follower
from penstock.successor import Successor


def followed(follower: Follower) -> None:
    number, (_, value) = follower.number()
    call: Any = SimpleNamespace(follows=value)
    follower.follow(number, call, print)


def test_a_stream_is_closed_while_the_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the garbage collector closed a stream in a thread that has not said yet that it runs."""
    channel: Any = threading.Event()  # it calls nothing here, and a reference to it can be weak
    follower = Follower(channel)

    thread: type[Any] = threading.Thread

    class Starting:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            collector = thread(target=follower.leave, args=(0,), daemon=True)
            collector.start()
            collector.join(20)
            assert not collector.is_alive(), "the lock is held"

        def is_alive(self) -> bool:
            return False

    monkeypatch.setattr(following.threading, "Thread", Starting)  # type: ignore[attr-defined]
    followed(follower)


def test_a_successor_is_closed_when_its_stream_has_just_opened() -> None:
    """As if the garbage collector closed the reader in the thread that opens the successor, which has the lock."""
    closed: list[bool] = []
    messages: Any = SimpleNamespace(close=lambda: closed.append(True))
    opening = threading.Event()

    def opened() -> Any:
        opening.wait(20)
        successor.close()
        return messages

    successor = Successor({"position": 1}, opened)
    with successor._changed:
        successor.close()
    opening.set()
    successor._thread.join(20)
    assert closed == [True]
    assert successor.take({"position": 1}) is None
