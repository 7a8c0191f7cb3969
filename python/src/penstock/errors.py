"""The exception classes, one for each kind of failure.

Every failure of a server, or of reading from one, is an `Error`. The class is the kind of failure, and the attributes
are the details. A server sends the details next to the status of a call. If they do not arrive, because the server was
killed or a proxy dropped them, the status determines the class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock.answers import parsed


@dataclass(frozen=True)
class Fault:
    """One mistake in a query.

    Attributes:
        field: the path of the field, such as "staging[0].key"; "" if the mistake is not in a field.
        position: 1-based position in the field's text, as in a filter; 0 if there is none.
        message: a description of the mistake.
        nearest: the known name closest to an unknown one; "" if none is close.
    """

    field: str
    message: str
    position: int = 0
    nearest: str = ""


class Error(Exception):
    """A failure with its kind and details.

    Attributes:
        kind: the kind's name, as in the server's details.
        message: the operation, its subject, and the problem.
        remedy: how to fix the problem; "" if unknown.
        faults: for `Invalid`: all mistakes, not only the first one.
        table: the table that was being read; "" if the failure is not about a table.
        file: the file that was being read; "" if the failure is not about a file.
        row_group: the row group of `file`; None if the failure is not about a row group.
        retry_after: seconds after which to retry; None if unknown.
        differs: for a cursor of a different plan, the differences.
        uncertain: for a table change, whether it may have been made despite the failure.
        token: the token of the table change, if `Client.stage` or `Client.restore` failed; "" otherwise.
        final: whether the server has ended for good, so that retries are useless.
        timed_out: whether the call did not end within the client's `timeout`.
        of_server: whether a server has sent the details. Otherwise, it may not respond at all.
        server: the address of the server that has sent the details, if the client has several; "" otherwise.
    """

    kind = "internal"
    final = False
    timed_out = False
    of_server = False
    server = ""
    token = ""
    uncertain = False

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        faults: tuple[Fault, ...] = (),
        table: str = "",
        file: str = "",
        row_group: int | None = None,
        retry_after: float | None = None,
        differs: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.faults = faults
        self.table = table
        self.file = file
        self.row_group = row_group
        self.retry_after = retry_after
        self.differs = differs

    def __str__(self) -> str:
        text = self.message
        if self.file and self.file not in text:
            group = "" if self.row_group is None else f", row group {self.row_group}"
            text += f" (file {self.file}{group})"
        if self.server:
            text = f"{self.server}: {text}"
        return f"{text}; {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message,), dict(vars(self)))


class Invalid(Error):  # noqa: N818 - named after the kind, like the others
    """The query contains mistakes; `faults` lists them."""

    kind = "invalid"


class NotFound(Error):  # noqa: N818
    """A dataset, table, ref, snapshot or file that does not exist."""

    kind = "not found"


class Unauthenticated(Error):  # noqa: N818
    """The credentials are missing or invalid."""

    kind = "unauthenticated"


class Forbidden(Error):  # noqa: N818
    """The caller is not allowed to do this."""

    kind = "forbidden"


class Expired(Error):  # noqa: N818
    """A ticket or snapshot that no longer exists: query again."""

    kind = "expired"


class Conflict(Error):  # noqa: N818
    """A commit that lost a race against another one."""

    kind = "conflict"


class Exhausted(Error):  # noqa: N818
    """A limit of the server was reached: retry later, or request less."""

    kind = "exhausted"


class Corrupt(Error):  # noqa: N818
    """Inconsistent data, or an incomplete stream."""

    kind = "corrupt"


class Unavailable(Error):  # noqa: N818
    """The server, its storage or its catalog does not respond."""

    kind = "unavailable"


class Internal(Error):  # noqa: N818
    """A bug in Penstock."""

    kind = "internal"


_CLASSES: dict[str, type[Error]] = {
    c.kind: c
    for c in (
        Invalid,
        NotFound,
        Unauthenticated,
        Forbidden,
        Expired,
        Conflict,
        Exhausted,
        Corrupt,
        Unavailable,
        Internal,
    )
}

# pyarrow maps several gRPC codes to one exception class; the code's name is in the message.
_STATUS = re.compile(
    r"(?:gRPC|Flight) (?:returned ([a-z -]+?) error|cancelled call|RPC failed),? with message: "
)
_STATUS_CLASSES: dict[str, type[Error]] = {
    "invalid argument": Invalid,
    "out-of-range": Invalid,
    "not found": NotFound,
    "unauthenticated": Unauthenticated,
    "permission denied": Forbidden,
    "unauthorized": Forbidden,
    "precondition failed": Expired,
    "failed precondition": Expired,
    "aborted": Conflict,
    "resource exhausted": Exhausted,
    "data loss": Corrupt,
    "unavailable": Unavailable,
    "deadline exceeded": Unavailable,
    "internal": Internal,
}
_EXCEPTION_CLASSES: tuple[tuple[type[BaseException], type[Error]], ...] = (
    (flight.FlightUnauthenticatedError, Unauthenticated),
    (flight.FlightUnauthorizedError, Forbidden),
    (flight.FlightUnavailableError, Unavailable),
    (flight.FlightTimedOutError, Unavailable),
    (flight.FlightCancelledError, Unavailable),
    (flight.FlightError, Internal),
    (pa.ArrowKeyError, NotFound),
    (pa.ArrowInvalid, Invalid),
    (pa.ArrowCancelled, Unavailable),
)
# A part of the text with which gRPC ends a call that has a message above the limit of a client, a proxy or a server.
_OVERSIZED = "message larger than max"
_OVERSIZED_REMEDY = "use fewer rows in a batch (batch_rows) or fewer columns, or lower max_batch_bytes in the server's config file"
# Text that the transport appends to the server's message.
_CONTEXT = re.compile(r"\.? (?:gRPC client debug context|Client context|Detail): .*", re.DOTALL)


def from_details(details: Mapping[str, Any]) -> Error:
    """Creates the exception from a failure's details, as sent by a server."""
    kind = str(details.get("kind", ""))
    retry = details.get("retry_after_ms")
    group = details.get("row_group")
    made = _CLASSES.get(kind, Error)(
        str(details.get("message", "")),
        remedy=str(details.get("remedy", "")),
        faults=tuple(
            Fault(
                field=str(f.get("field", "")),
                message=str(f.get("message", "")),
                position=int(f.get("position", 0)),
                nearest=str(f.get("nearest", "")),
            )
            for f in details.get("faults") or ()
        ),
        table=str(details.get("table", "")),
        file=str(details.get("file", "")),
        row_group=None if group is None else int(group),
        retry_after=int(retry) / 1000 if retry else None,
        differs=tuple(str(d) for d in details.get("differs") or ()),
    )
    if kind and kind not in _CLASSES:
        made.kind = kind  # a newer server's kind: an Error with that kind
    made.uncertain = bool(details.get("uncertain", False))
    return made


def from_trailer(raw: bytes | str | None) -> Error | None:
    """Decodes the trailer with a failure's details; returns None if it is missing or unreadable."""
    if raw is None:
        return None
    try:
        details = parsed(raw)
        if not isinstance(details, dict):
            return None
        failure = from_details(details)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return None
    failure.of_server = True
    return failure


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Raises `Internal` if decoding an answer of a server fails: a part is missing, or has another form.

    Args:
        what: the answer, for the message.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise Internal(f"{what} cannot be read: {e!r}") from e


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Adds a note to an exception of any class: which of several things it is about.

    Args:
        what: the thing, for the note.
    """
    try:
        yield
    except Exception as e:
        e.add_note(f"This was {what}.")
        raise


def from_arrow(exception: BaseException, *, unclassified: type[Error] | None = None) -> Error:
    """Converts one of pyarrow's exceptions to ours.

    Args:
        exception: the exception that pyarrow raised.
        unclassified: the class to use if neither a gRPC status nor a Flight exception determines one.
    """
    text = str(exception)
    status = _STATUS.search(text)
    message = _CONTEXT.sub("", text[status.end() :] if status else text).strip() or type(exception).__name__
    if status and status[1] in _STATUS_CLASSES:
        remedy = _OVERSIZED_REMEDY if _OVERSIZED in message.lower() else ""
        return _STATUS_CLASSES[status[1]](message, remedy=remedy)
    if unclassified is not None and not isinstance(exception, flight.FlightError):
        return unclassified(message)
    for theirs, ours in _EXCEPTION_CLASSES:
        if isinstance(exception, theirs):
            return ours(message)
    return Internal(message)
