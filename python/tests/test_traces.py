"""Spans of the client in the traces of servers, with a double of OpenTelemetry's API, which is no dependency."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import penstock
from penstock import traces
from penstock.traces import Traces

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _context(trace_id: int, span_id: int, *, is_remote: bool, trace_flags: int) -> SimpleNamespace:
    """Makes the context of a span."""
    return SimpleNamespace(
        trace_id=trace_id,
        span_id=span_id,
        is_remote=is_remote,
        trace_flags=trace_flags,
        is_valid=span_id != 0,
    )


def _same(context: SimpleNamespace) -> SimpleNamespace:
    """Makes a span of a context."""
    return context


class Api:
    """The part of opentelemetry.trace that the package calls. It has an active span, and keeps the spans that end."""

    def __init__(self, parent: str) -> None:
        """Takes the active span from a header."""
        _, trace, span, flags = parent.split("-")
        self.active = self.SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=int(flags))
        self.spans: list[tuple[str, str, str, dict[str, int], int, int]] = []

    SpanContext = staticmethod(_context)
    TraceFlags = int

    NonRecordingSpan = staticmethod(_same)

    @staticmethod
    def set_span_in_context(span: SimpleNamespace) -> SimpleNamespace:
        """Makes a context with a span."""
        return span

    def get_current_span(self) -> SimpleNamespace:
        """Returns the active span."""
        return SimpleNamespace(get_span_context=lambda: self.active)

    def get_tracer(self, name: str) -> Any:
        """Returns a tracer."""
        assert name == "penstock"

        def start_span(
            name: str, *, context: SimpleNamespace, start_time: int, attributes: dict[str, int]
        ) -> SimpleNamespace:
            def end(end_time: int) -> None:
                ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
                self.spans.append((name, *ids, attributes, start_time, end_time))

            return SimpleNamespace(end=end)

        return SimpleNamespace(start_span=start_span)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """A double of the API, with an active span."""
    double = Api(PARENT)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", double)
    return double


def test_ids_are_those_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids are those of the page.

    spec: trace-3, trace-4
    """
    monkeypatch.setenv("TRACEPARENT", PARENT)
    found = Traces.opened_now("3f2a")
    assert found is not None
    assert found.header == PARENT
    for step, shard, trace, span in (
        (100, 0, "719d1603f5a4f11275cf08f07842ee4d", "625bdf8cb858eafb"),
        (100, 1, "719d1603f5a4f11275cf08f07842ee4d", "78abfdf5fb418f76"),
        (1 << 40, 0, "fa01bcdd5fcf63f833297a286633a3fd", "baeacf1d7a1319e6"),
    ):
        assert [one.hex() for one in found.ids(step, shard)] == [trace, span]


@pytest.mark.parametrize("header", ["", "x", PARENT.upper(), f"{PARENT}-1", f"00-{'0' * 32}-{'1' * 16}-01"])
def test_other_headers_are_none(monkeypatch: pytest.MonkeyPatch, header: str) -> None:
    """Without an active span and a valid variable, nothing is sent."""
    monkeypatch.setenv("TRACEPARENT", header)
    assert Traces.opened_now("p") is None


def test_steps_have_spans(fake: penstock.Client, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each n-th batch has a span below the server's span of its step, and the header is sent with the ticket.

    spec: trace-10
    """
    monkeypatch.setenv(traces.EVERY, "2")
    sent: list[tuple[str, str]] = []
    options = penstock.settings.Settings.options

    def spied(settings: Any, *, unlimited: bool, headers: Any = ()) -> Any:
        sent.extend(headers)
        return options(settings, unlimited=unlimited, headers=headers)

    monkeypatch.setattr(penstock.settings.Settings, "options", spied)
    with fake.read("numbers") as stream:
        steps = [stream.cursor["step"] for _ in stream if isinstance(stream.cursor, dict)]
        found = stream._traces
    assert (traces.HEADER, PARENT) in sent
    assert found is not None
    even = [step for step in steps if step % 2 == 0]
    assert even
    assert [one[:4] for one in api.spans] == [
        (
            "penstock.client.wait",
            *(part.hex() for part in found.ids(step, 0)),
            {"penstock.step": step, "penstock.shard": 0},
        )
        for step in even
    ]
    assert all(began <= ended for *_, began, ended in api.spans)


def test_spans_that_are_not_sampled(api: Api) -> None:
    """A trace that is not recorded has no spans, and its header says so.

    spec: trace-2
    """
    api.active = Api(f"{PARENT[:-1]}0").active
    found = Traces.opened_now("p")
    assert found is not None
    assert found.header.endswith("-00")
    found.record("penstock.client.wait", {"step": 100, "shard": {"index": 0}}, 1, 2)
    assert api.spans == []
