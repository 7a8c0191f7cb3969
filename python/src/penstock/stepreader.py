"""Reads single steps of a stream that several actors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock import errors
from penstock.client import Client
from penstock.stream import Stream
from penstock.turns import Start


class StepReader:
    """The stream of one actor, which only goes forward. Not safe for threads."""

    def __init__(self, client: Client) -> None:
        """Opens nothing.

        Args:
            client: reads the stream.
        """
        self._client = client
        self._stream: Stream | None = None

    def open(self, fields: Mapping[str, Any], start: Start) -> None:
        """Opens the stream, instead of the one before.

        Args:
            fields: the query's dataset and other fields, without `cursor` and `every`. `snapshots` and `epoch` apply
                only if there is no cursor, which has both.
            start: where to begin.
        """
        self.close()
        at: dict[str, Any] = dict(fields)
        if start.cursor is not None:
            at["cursor"] = start.cursor
            for name in ("snapshots", "epoch"):
                at.pop(name, None)
        if start.every[1] > 1:
            at["every"] = start.every
        self._stream = self._client.read(**at)

    def read(self, step: int) -> pa.RecordBatch | None:
        """Reads on to a step, and returns its batch; None if the stream ends before it.

        Raises:
            Corrupt: the stream has no batch of this step.
        """
        assert self._stream is not None
        while (batch := next(self._stream, None)) is not None:
            reached = int(self.cursor["step"])
            if reached == step + 1:
                return batch
            if reached > step:
                raise errors.Corrupt(
                    f"the stream returned step {reached - 1} instead of step {step}",
                    remedy="read again from the cursor of the last step",
                )
        return None

    @property
    def cursor(self) -> dict[str, Any]:
        """The stream's position."""
        assert self._stream is not None
        found: Any = self._stream.cursor
        return found

    def close(self) -> None:
        """Closes the stream."""
        if self._stream is not None:
            self._stream.close()
