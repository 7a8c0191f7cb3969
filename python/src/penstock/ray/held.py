"""Keeps the snapshots of a plan from expiring while a Ray dataset may be read."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from penstock import errors
from penstock.access import Access
from penstock.bound import BoundQuery
from penstock.reading import Reading
from penstock.servers import Servers
from penstock.stream import Stream

_log = logging.getLogger("penstock")

# A tag of a snapshot lasts for at least half of `pin_tags.keep` after a stream, and `keep` is at least an hour.
_INTERVAL = 600.0
# Seconds for which the end of the interpreter waits for a running call.
_END_LIMIT = 5.0

# The threads of this process, with the events that end them. An ending interpreter must not stop gRPC in a call.
_running: dict[threading.Thread, threading.Event] = {}


class Held:
    """Holds the snapshots of a query until this object is unused, or the process ends.

    A server with `pin_tags` tags the snapshots that a stream reads, and renews the tags as long as it reads. A thread
    opens a stream without rows now and again, so that the tags never expire between two executions of a dataset.
    """

    def __init__(self, access: Access, form: Mapping[str, Any], interval: float = _INTERVAL) -> None:
        """Starts to hold.

        Args:
            access: the servers.
            form: the query, pinned to its snapshots.
            interval: the seconds between two streams.
        """
        ended = threading.Event()
        thread = threading.Thread(
            target=_hold, args=(access, form, interval, ended), name="penstock-hold", daemon=True
        )
        _running[thread] = ended
        weakref.finalize(self, ended.set).atexit = False
        thread.start()


def _hold(access: Access, form: Mapping[str, Any], interval: float, ended: threading.Event) -> None:
    try:
        while not ended.wait(interval):
            try:
                hold_once(access, form)
            except errors.Error as e:
                _log.warning("the snapshots of a Ray dataset could not be held: %s", e)
    finally:
        _running.pop(threading.current_thread(), None)


def hold_once(access: Access, form: Mapping[str, Any]) -> None:
    """Opens a stream of a query without its rows, which holds the snapshots of all its tables."""
    bound = BoundQuery(Servers(access.settings()), {**form, "filter": "FALSE", "endpoints": "shards"})
    try:
        found = bound.plan()
        Stream(bound, Reading.all_of(bound, found), found.plan, ordered=found.ordered).read_all()
    finally:
        bound.servers.close()


def _end() -> None:
    running = dict(_running)
    for ended in running.values():
        ended.set()
    for thread in running:
        thread.join(_END_LIMIT)


atexit.register(_end)
