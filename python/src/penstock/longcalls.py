"""Calls of server actions that take long: they report progress, and have a time limit of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import pyarrow.flight as flight

from penstock import errors, query
from penstock.answers import parsed
from penstock.servers import Servers, only

T = TypeVar("T")


@dataclass(frozen=True)
class ChangeProgress:
    """The progress of a table change.

    Attributes:
        step: the current step: "keys", "read", "write" or "commit" of `Client.stage`, "write" of `restore`, "rewrite"
            of `compact` and `promote`, "check" of a dry run of `promote`, "search" or "remove" of `orphans`.
        rows_read: the number of rows received or read so far.
        rows_written: the number of rows written to data files so far.
        of_rows_read: the total number of rows to read; 0 if unknown.
        of_rows_written: the total number of rows to write; 0 if unknown.
        files: the number of finished files.
        bytes: the bytes of these files.
        of_files: the total number of files; 0 if unknown.
        of_bytes: the total bytes of all files; 0 if unknown.
        table: the table, if the call changes several.
    """

    step: str
    rows_read: int = 0
    rows_written: int = 0
    of_rows_read: int = 0
    of_rows_written: int = 0
    files: int = 0
    bytes: int = 0
    of_files: int = 0
    of_bytes: int = 0
    table: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's progress message."""
        counts = [name for name in cls.__dataclass_fields__ if name not in ("step", "table")]
        numbers = {name: int(found.get(name, 0)) for name in counts}
        return cls(step=str(found.get("step", "")), table=str(found.get("table", "")), **numbers)


ProgressFunction = Callable[[ChangeProgress], None]


def long_call(
    servers: Servers,
    action: str,
    fields: Mapping[str, Any],
    decode: Callable[[Any], T],
    progress: ProgressFunction | None,
    timeout: float | None,
) -> T:
    """Calls an action, and returns its only result, decoded. See `results_of` for the other arguments.

    Args:
        servers: the servers.
        action: the name of the action.
        fields: the action's fields.
        decode: makes the result from JSON values.
        progress: called with the server's progress messages.
        timeout: seconds after which the server ends the call.
    """
    return results_of(
        servers, action, fields, lambda results: decode(only(action, results)), progress, timeout
    )


def results_of(
    servers: Servers,
    action: str,
    fields: Mapping[str, Any],
    decode: Callable[[list[Any]], T],
    progress: ProgressFunction | None,
    timeout: float | None,
) -> T:
    """Calls an action, and returns its results, decoded.

    Args:
        servers: the servers.
        action: the name of the action.
        fields: the action's fields; None values are left out.
        decode: makes the results from JSON values.
        progress: called with the server's progress messages, unless None.
        timeout: seconds after which the server ends the call; None for no limit.

    Raises:
        Internal: the server does not follow the protocol.
    """
    sent = flight.Action(action, query.text({**fields, "progress": progress is not None}))
    limited = replace(servers.settings, timeout=timeout)
    what = f"the server's answer to {action}"

    def call(client: flight.FlightClient, _: flight.FlightCallOptions) -> list[Any]:
        results = []
        for answer in client.do_action(sent, limited.options(unlimited=False)):
            with errors.decoding(what):
                message = dict(parsed(answer.body.to_pybytes()))
                made = message.get("progress")
                told = ChangeProgress.of(made) if isinstance(made, dict) else None
            if progress is not None and told is not None:
                progress(told)
            if "result" in message:
                results.append(message["result"])
        return results

    began = time.monotonic()
    try:
        results = servers.call(call, unlimited=True)
    except errors.Error as e:
        if timeout is not None and time.monotonic() - began >= timeout:
            e.timed_out = True  # so that a call that only reads is not retried
        raise
    with errors.decoding(what):
        return decode(results)
