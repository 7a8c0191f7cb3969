"""Sends rows to a table exactly once, even if the connection is lost."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow.flight as flight

from penstock import errors, query
from penstock.answers import parsed
from penstock.backoff import Backoff
from penstock.call import Call
from penstock.channel import Channel
from penstock.lease import Lease
from penstock.longcalls import ChangeProgress, ProgressFunction
from penstock.outgoing import Rows, parts
from penstock.servers import Choice, Servers, is_retryable, log_retry
from penstock.staged import Staged

_log = logging.getLogger("penstock")


def new_token() -> str:
    """Returns a new token for a change: the current time in UTC, and a random name."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{uuid.uuid4()}"


def stage(
    servers: Servers, command: Mapping[str, Any], data: Any, progress: ProgressFunction | None
) -> Staged:
    """Sends rows to a table.

    Args:
        servers: the servers.
        command: the fields of the command, including the token.
        data: the rows.
        progress: called about once a second, mostly in a separate thread; None for no calls.
    """
    token = str(command["token"])
    try:
        rows = Rows(data)
    except errors.Error as failure:
        failure.token = token
        raise
    backoff = Backoff(servers.settings.reconnect)
    choice = Choice(servers, None)
    for attempt in itertools.count(1):
        channel = choice.next()
        sending = _Sending(channel, command, rows, progress)
        try:
            staged = sending.run()
            servers.use(channel)
            _log_broken(staged)
            return staged
        except errors.Error as failure:
            failure.token = token
            # If no server was ever reached, the addresses are probably wrong.
            if not is_retryable(failure) or (attempt >= len(servers.addresses()) and not servers.answered):
                raise
            choice.failed(channel)
            wait = backoff.next(failure.retry_after)
            if sending.took and not rows.again:
                failure.remedy = _by_hand(token, "these rows can be read once")
                raise
            if wait is not None and not servers.closed:
                log_retry(backoff, wait, failure)
            if wait is None or servers.wait(wait):
                failure.remedy = _by_hand(token, failure.remedy)
                raise
    raise AssertionError("unreachable: an attempt returns or raises")


def _log_broken(staged: Staged) -> None:
    """Logs the datasets that the change has made unreadable, and the suspicious match rates."""
    for reader in staged.readers:
        if reader.failure and not reader.before:
            _log.warning(
                "the rows are committed in snapshot %d of table %s, and dataset %s can no longer be read: %s",
                staged.snapshot,
                staged.table,
                reader.dataset,
                reader.failure,
            )
        elif reader.warning:
            _log.warning("dataset %s after the stage to %s: %s", reader.dataset, staged.table, reader.warning)


def _by_hand(token: str, why: str) -> str:
    """Returns the remedy for a change that may have been made."""
    return (
        f"{why + ': ' if why else ''}call stage again with token={token!r} and the same rows; if this call has"
        " written them, it writes nothing"
    )


class _Sending:
    """One attempt to send the rows.

    Attributes:
        took: whether a batch was taken from the rows.
    """

    def __init__(
        self, channel: Channel, command: Mapping[str, Any], rows: Rows, progress: ProgressFunction | None
    ) -> None:
        self._channel = channel
        self._command = command
        self._rows = rows
        self._progress = progress
        self.took = False
        self._result: dict[str, Any] | None = None

    def run(self) -> Staged:
        """Sends the rows, and returns the server's result."""
        descriptor = flight.FlightDescriptor.for_command(query.text({"stage": dict(self._command)}))
        lease, call, answers = self._channel.put(descriptor, self._rows.schema)
        try:
            self._send(lease, call, answers)
        except errors.Unavailable as failure:
            lease.broken = True
            if call.details is None:
                self._channel.explain(failure)
            raise
        except errors.Error as failure:
            call.compare_versions(failure)
            self._channel.answered = self._channel.answered or call.details is not None
            raise
        finally:
            lease.release()
        if self._result is None:
            raise errors.Unavailable("the server ended the call without a result")
        with errors.decoding("the server's answer to stage"):
            return Staged.of(
                str(self._command["table"]), str(self._command.get("branch", "main")), self._result
            )

    def _send(self, lease: Lease, call: Call, answers: flight.FlightMetadataReader) -> None:
        with call.translated():
            limit = self._begin(answers)
            if limit is None:
                lease.writing().close()  # raises the error if the call has failed
                return
        listener = None
        if self._progress is not None:
            listener = threading.Thread(
                target=self._listen, args=(call, answers), name="penstock-stage", daemon=True
            )
            listener.start()
        sent = 0
        for batch in self._rows.batches():
            self.took = True
            for part in parts(batch, limit):
                with call.translated():
                    lease.writing().write_batch(part)
                sent += part.num_rows
        self.took = True
        with call.translated():
            writer = lease.writing()
            writer.write_metadata(json.dumps({"rows": sent}).encode())
            writer.done_writing()
        if listener is not None:
            listener.join()
        with call.translated():
            while self._message(answers) is not None:
                pass
            lease.writing().close()

    def _begin(self, answers: flight.FlightMetadataReader) -> int | None:
        """Waits until the server requests rows. Returns the maximum bytes of a message; None if the server requests no rows."""
        while (message := self._message(answers)) is not None:
            begin = message.get("begin")
            if isinstance(begin, dict):
                with errors.decoding("the server's answer to stage"):
                    return int(begin["max_message"])
        return None

    def _message(self, answers: flight.FlightMetadataReader) -> dict[str, Any] | None:
        """Reads the next message; returns None at the end."""
        found = answers.read()
        if found is None:
            return None
        self._channel.answered = True
        with errors.decoding("the server's answer to stage"):
            message = dict(parsed(found.to_pybytes()))
            result, progress = message.get("result"), message.get("progress")
            told = ChangeProgress.of(progress) if isinstance(progress, dict) else None
        if isinstance(result, dict):
            self._result = result
        if self._progress is not None and told is not None:
            self._progress(told)
        return message

    def _listen(self, call: Call, answers: flight.FlightMetadataReader) -> None:
        """Reads messages until the end or a failure, which the writer also raises."""
        try:
            with call.translated():
                while self._message(answers) is not None:
                    pass
        except errors.Error:
            return
