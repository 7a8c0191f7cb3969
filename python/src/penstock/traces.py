"""Spans of a client in the traces that servers make of single steps, see docs/spec/trace.md.

OpenTelemetry is optional. Without an active span of the program, and without TRACEPARENT, nothing is sent or recorded.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

HEADER = "traceparent"
EVERY = "PENSTOCK_TRACE_EVERY"
"""The environment variable with the number of steps of which one is traced, as the server's setting trace_every."""

_DEFAULT_EVERY = 100
_HEADER = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1
_API = "opentelemetry.trace"


@dataclass(frozen=True)
class Traces:
    """The traces of the steps of one plan.

    Attributes:
        trace: the id of the trace in which the stream was opened.
        span: the id of the span that opened the stream.
        flags: of that trace; 1 if it is recorded.
        plan: the id of the plan.
        every: the number of steps of which one is traced.
    """

    trace: bytes
    span: bytes
    flags: int
    plan: str
    every: int

    @classmethod
    def opened_now(cls, plan: str) -> Self | None:
        """Returns the traces of a stream that the active span opens, or else the environment variable TRACEPARENT.

        They are None if there is neither.
        """
        every = os.environ.get(EVERY, "")
        number = int(every) if every.isdecimal() and int(every) else _DEFAULT_EVERY
        api: Any = sys.modules.get(_API)  # a program with an active span has imported it
        if api is not None:
            active = api.get_current_span().get_span_context()
            if active.is_valid:
                flags = int(active.trace_flags)
                return cls(active.trace_id.to_bytes(16), active.span_id.to_bytes(8), flags, plan, number)
        found = _HEADER.fullmatch(os.environ.get("TRACEPARENT", ""))
        if found is None:
            return None
        trace, span, given = (bytes.fromhex(text) for text in found.groups())
        return cls(trace, span, given[0], plan, number) if any(trace) and any(span) else None

    @property
    def header(self) -> str:
        """The value of the header by which the server computes the same ids."""
        return f"00-{self.trace.hex()}-{self.span.hex()}-{self.flags:02x}"

    def ids(self, step: int, shard: int) -> tuple[bytes, bytes]:
        """Returns the ids of the trace of a step, and of the server's span in it."""
        trace = hashlib.sha256(self.trace + self.span + struct.pack(">Q", step)).digest()[:16]
        span = hashlib.sha256(trace + struct.pack(">I", shard) + self.plan.encode()).digest()[:8]
        return trace, span

    def record(self, name: str, cursor: Mapping[str, Any], began: int, ended: int) -> None:
        """Records a span below the server's span of a step, if the step is traced and OpenTelemetry is in use.

        Args:
            name: of the span.
            cursor: of the step's batch.
            began: in nanoseconds since 1970.
            ended: in nanoseconds since 1970.
        """
        api: Any = sys.modules.get(_API)
        step = int(cursor["step"])
        if api is None or step % self.every or not self.flags & _SAMPLED:
            return
        shard = int(cursor["shard"]["index"])
        trace, span = self.ids(step, shard)
        parent = api.SpanContext(
            int.from_bytes(trace), int.from_bytes(span), is_remote=True, trace_flags=api.TraceFlags(_SAMPLED)
        )
        made = api.get_tracer("penstock").start_span(
            name,
            context=api.set_span_in_context(api.NonRecordingSpan(parent)),
            start_time=began,
            attributes={"penstock.step": step, "penstock.shard": shard},
        )
        made.end(end_time=ended)
