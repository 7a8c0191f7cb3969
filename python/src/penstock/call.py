"""What a call brings besides its answer: the details of its failure, and what headers and trailers say."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, local
from penstock.version import __version__

TRAILER = "penstock-error-bin"
VERSION_HEADER = "penstock-version"
FOLLOW_HEADER = "penstock-follow"
# Of a receiver: why it does not pass on the stream, although the server may send it.
_REFUSAL = "penstock-receiver-bin"


class Call(flight.ClientMiddleware):
    """Collects the details of one call's failure from its trailers."""

    def __init__(self) -> None:
        super().__init__()
        self.details: bytes | str | None = None
        self.version = ""  # the server's version
        self.refusal = ""  # why a receiver does not pass on the stream; "" if the server failed
        self.session = ""  # the id of the session that the server uses for the stream; "" if it uses none
        self.follows = ""  # how the server says that the stream can be followed; "" if it cannot

    def received_headers(self, headers: Mapping[str, list[bytes | str]]) -> None:
        """Records the details, and the server's version. gRPC calls this for headers and for trailers."""
        values = headers.get(TRAILER)
        if values:
            self.details = values[-1]
        refusals = headers.get(_REFUSAL)
        if refusals:
            self.refusal = _text(refusals[-1])
        sessions = headers.get(local.HEADER)
        if sessions:
            self.session = _text(sessions[-1])
        follows = headers.get(FOLLOW_HEADER)
        if follows:
            self.follows = _text(follows[-1])
        versions = headers.get(VERSION_HEADER)
        if versions:
            self.version = _text(versions[-1])

    def compare_versions(self, failure: errors.Error) -> None:
        """Adds a remedy to a failure if the server's version differs from this package's."""
        if self.version and self.version.partition("+")[0] != __version__:
            both = f"the server is penstock {self.version} and this package {__version__}: install the same version of both"
            failure.remedy = f"{failure.remedy}; {both}" if failure.remedy else both

    @contextmanager
    def translated(self, unclassified: type[errors.Error] | None = None) -> Iterator[None]:
        """Converts pyarrow's exceptions to ours."""
        try:
            yield
        except (pa.ArrowException, flight.FlightError, OSError) as e:
            # A kept exception must not keep Flight's objects and gRPC's threads alive: a fork waits for these threads
            # to end.
            traceback.clear_frames(e.__traceback__)
            known = errors.from_trailer(self.details)
            if known is not None:
                raise known from None
            raise errors.from_arrow(e, unclassified=unclassified) from e


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


class Calls(flight.ClientMiddlewareFactory):
    """Creates a `Call` for each call, and passes it to the calling thread."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    @contextmanager
    def watched(self) -> Iterator[Call]:
        """Yields the `Call` of this thread's next call, and converts its exceptions."""
        call = self._thread.next = Call()
        try:
            with call.translated():
                yield call
        finally:
            self._thread.next = None

    def start_call(self, info: Any) -> Call:  # noqa: ARG002 - Flight's signature
        """Called by Flight, in the calling thread."""
        call: Call | None = getattr(self._thread, "next", None)
        return call or Call()
