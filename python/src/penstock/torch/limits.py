"""Warns once if the training loop waits too long for batches, and names the stage that limits it."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace

from penstock import errors
from penstock.streamstatus import StreamStatus
from penstock.torch.meter import RECENT, Meter, Spent
from penstock.torch.source import Source

# The share of the time of recent steps from which waiting is worth a warning.
_MOST = 0.2
# Seconds to wait for the server's answer: the loop waits too.
_LIMIT = 1.0

_CONVERTING = (
    "converting batches in this process",
    "set local_socket of a server on this host, which then makes the tensors, or make transform faster",
)
_COPYING = ("the copy to the device", "check that other programs do not use the device")
_UNKNOWN = ("the server or the network", "compare `penstock status` at two times")
# The stages of the server by the cause for which its stream waits.
_CAUSES = {
    "trainer": (
        "the network between the server and this host",
        "run a server on this host, or read fewer columns",
    ),
    "storage": ("the server's reads of storage", "give the server a larger cache, or read fewer columns"),
    "memory": ("the server's memory budget", "raise its memory"),
    "slot": ("the server's stream slots", "raise max_streams"),
    "stream": ("the server's reads of storage for another stream", "give the server a larger cache"),
    "": ("decoding and joining in the server", "give the server more processors, or read fewer columns"),
}


class Watch:
    """Watches the loops of a dataset until it has warned."""

    def __init__(self, name: str) -> None:
        """Watches a dataset of this name."""
        self._name = name
        self._warned = False
        self._before = (Spent(), 0.0)  # at the last look

    def look(self, meter: Meter, source: Source) -> None:
        """Warns if the last steps waited too long. Called after each batch, in the loop's thread."""
        if meter.batches % RECENT != 1 or self._warned:
            return
        stats = source.stats
        receiving = 0.0 if stats is None else stats.waited
        (spent, received), self._before = self._before, (replace(meter.spent), receiving)
        steps = meter.recent
        if steps.steps < RECENT or steps.stall <= _MOST:
            return
        self._warned = True
        stages = {
            _CONVERTING: meter.spent.converting - spent.converting,
            _COPYING: meter.spent.copying - spent.copying,
            None: receiving - received,
        }
        stage, remedy = max(stages, key=lambda name: stages[name]) or _of_server(source)
        warnings.warn(
            f"the loop waited for batches of {self._name!r} for {steps.stall:.0%} of {steps.steps} steps. The limit is "
            f"{stage}: {remedy}",
            stacklevel=4,
        )


def _of_server(source: Source) -> tuple[str, str]:
    """The stage that limits a stream before its batches are received, by the server's status."""
    if source.client is None or source.plan is None:
        return _UNKNOWN
    try:
        streams = source.client.status(timeout=_LIMIT).streams
    except errors.Error:  # the server is busy, or older than this action
        return _UNKNOWN
    found = [one for one in streams if one.plan == source.plan.id and (one.shard, one.shards) == source.rank]
    return _CAUSES.get(_cause(found), _UNKNOWN) if found else _UNKNOWN


def _cause(streams: list[StreamStatus]) -> str:
    """The cause for which streams have waited longest; "" if they have worked longer."""
    times = {"": 0.0}
    for one in streams:
        waited = asdict(one.waited)
        for cause, seconds in waited.items():
            times[cause] = times.get(cause, 0.0) + seconds
        times[""] += max(0.0, one.open - sum(waited.values()))
    return max(times, key=lambda cause: times[cause])
