"""A Flight server that follows Penstock's protocol, or violates it as a test requires.

The name of the dataset selects its behavior; a shard's rows are the numbers i with i
mod of = index. Run as a program, it prints host:port and serves until its standard
input ends.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as flight
from fake_wire import fields, flight_data

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.utf8())])
ROWS = 1000
BATCH_ROWS = 64
# Beyond what a double holds exactly.
SNAPSHOT = 2**62 + 1

# How often each dataset was planned.
_planned: Counter[str] = Counter()


def cursor(shard: dict[str, int], given: int) -> dict[str, Any]:
    step = -(-given // BATCH_ROWS)
    pin = {"training": {"snapshot": SNAPSHOT}}
    return {"v": 1, "plan": "p", "pin": pin, "shard": shard, "step": step, "rows": given}


def numbers(index: int, of: int) -> list[int]:
    return list(range(index, ROWS, of))


def fail(context: grpc.ServicerContext, asked: str) -> None:
    """Ends the call with the error of the dataset "raises CODE" or "raises CODE DETAILS"."""
    code, _, details = asked.partition(" ")
    if details:
        context.set_trailing_metadata((("penstock-error-bin", details.encode()),))
    context.abort(grpc.StatusCode[code], "the reason")


def list_flights(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:  # noqa: ARG001
    yield _found(flight.FlightDescriptor.for_path("good"), [], _summary(1))
    broken = {"v": 1, "error": {"kind": "not found", "message": "table ml.gone", "table": "ml.gone"}}
    yield _found(flight.FlightDescriptor.for_path("broken"), [], broken, -1)


def get_flight_info(request: bytes, context: grpc.ServicerContext) -> bytes:
    descriptor = flight.FlightDescriptor.deserialize(request)
    query = json.loads(descriptor.command)
    name = query["dataset"]
    if name.startswith("raises "):
        fail(context, name.removeprefix("raises "))
    if name == "slow":
        threading.Event().wait(20)
    shard = query.get("shard", {"of": 1})
    indexes = [shard["index"]] if "index" in shard else range(shard["of"])
    cursors = query.get("cursor") or []
    if cursors:
        _resumes(name, context)
    _planned[name] += 1
    given = {c["shard"]["index"]: c["rows"] for c in (cursors if isinstance(cursors, list) else [cursors])}
    tickets = [
        {
            "name": name,
            "index": i,
            "of": shard["of"],
            "given": given.get(i, 0),
            "end": given.get(i, 0) + query.get("limit", ROWS),
            "plans": _planned[name],
        }
        for i in ([] if name == "no endpoints" else indexes)
    ]
    summary = _summary(shard["of"])
    if name == "newer":
        summary["v"] = 2
    if name == "less":
        del summary["pin"]
    schema = SCHEMA
    if cursors and name.startswith("seam other plan"):
        summary["plan"] = "q"
    if cursors and name.startswith("seam other schema"):
        schema = pa.schema([SCHEMA.field("n")])
    return _found(descriptor, tickets, None if name == "stranger" else summary, schema=schema)


def _resumes(name: str, context: grpc.ServicerContext) -> None:
    """Refuses to plan with a cursor, for the dataset "down TIMES" or "down forever"."""
    if name.startswith("down "):
        times = name.split(" ")[1]
        _planned[f"{name}, down"] += 1
        if times == "forever" or _planned[f"{name}, down"] <= int(times):
            fail(context, "UNAVAILABLE")


def get_schema(request: bytes, context: grpc.ServicerContext) -> bytes:  # noqa: ARG001
    return bytes(flight.SchemaResult(SCHEMA).serialize())


def do_action(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    action = flight.Action.deserialize(request)
    sent = dict(context.invocation_metadata())
    if "answer" in sent:
        yield flight.Result(str(sent["answer"]).encode()).serialize()
        return
    if action.type == "status":
        yield flight.Result(_status(sent.get("status"))).serialize()
        return
    body = action.body.to_pybytes()
    query = json.loads(body)
    if action.type == "explain_scale":
        yield flight.Result(json.dumps({"text": "scaled: " + body.decode()}).encode()).serialize()
        return
    name = str(query["dataset"])
    if name.startswith("raises "):
        fail(context, name.removeprefix("raises "))
    answer = (b"explained in full: " if action.type == "explain_splits" else b"explained: ") + body
    if action.type == "verify":
        answer = json.dumps({"query": query, "findings": []}).encode()
    if action.type == "manifest":
        answer = json.dumps({"query": query, "authorization": sent.get("authorization")}).encode()
    for _ in range(2 if name == "twice" else 1):
        yield flight.Result(answer).serialize()


def _status(form: str | bytes | None) -> bytes:
    """The status of a server with one stream, of a form."""
    stream: dict[str, Any] = {
        "id": "0123456789abcdef",
        "job": "sweep-7",
        "dataset": "good",
        "plan": "p",
        "shard": {"index": 1, "of": 4},
        "lanes": 2,
        "started": "2026-10-01T12:00:00.5Z",
        "open_ms": 2500,
        "rows": 100,
        "rows_total": -1,
        "step": 25,
        "steps": 100,
        "batches": 25,
        "bytes": 4096,
        "mapped_bytes": 0,
        "way": "receiver",
        "waiting": "trainer",
        "waited_ms": {"trainer": 1250, "slot": 0, "memory": 0, "stream": 0, "storage": 250},
        "worked_ms": {"decode": 500},
        "reads": {"requests": 3, "took_ms": 1500, "sought": 2},
        "limit": {"cause": "trainer", "share": 0.5, "remedy": "nothing"},
        "later": {"unheard": "of"},
    }
    answer: dict[str, Any] = {
        "v": 1,
        "version": "0.1.0",
        "uptime_ms": 60000,
        "all": False,
        "streams": [stream],
    }
    if form == "newer":
        answer["v"] = 2
    if form == "less":
        del stream["plan"]
    if form == "all":
        inline = {**stream, "inline": True, "subject": "ranker", "lanes": 0, "steps": -1, "rows_total": 400}
        del inline["dataset"], inline["waiting"]
        answer |= {
            "all": True,
            "streams": [stream, inline],
            "memory": {"limit": -1, "used": 5, "idle": 1, "in_flight": 2, "peak": 9},
            "slots": {"limit": 0, "per_client": 1, "taken": 2, "kept": 3, "waiting": 4},
            "plans": {"limit": 2, "running": 1, "waiting": 0},
            "config": {
                "current": False,
                "applied": 1,
                "refused": 2,
                "last": "2026-10-01T12:00:00Z",
                "error": "no",
            },
        }
    return json.dumps(answer).encode()


def do_get(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    asked = json.loads(dict(fields(request))[1])
    name, shard = asked["name"], {"index": asked["index"], "of": asked["of"]}
    schema = pa.schema([("m", pa.int32())]) if name == "other schema" else SCHEMA
    if name.startswith("stale") and (asked["plans"] == 1 or "ever" in name):
        fail(context, 'FAILED_PRECONDITION {"kind": "expired", "message": "the ticket is of other keys"}')
    yield flight_data(schema.serialize())
    rows = numbers(asked["index"], asked["of"])[: asked["end"]]
    given = asked["given"]
    if given:
        given += {"seam repeats": -BATCH_ROWS, "seam skips": BATCH_ROWS}.get(name, 0)
        rows = rows[:-BATCH_ROWS] if name == "seam loses" else rows
    sent = batches = 0
    while given < len(rows):
        if moves := _moved(asked, batches, cursor(shard, given)):
            yield from moves
            return
        part = rows[given : given + BATCH_ROWS]
        given, sent, batches = given + len(part), sent + len(part), batches + 1
        batch = pa.record_batch([pa.array(part), pa.array([str(n) for n in part])], schema=SCHEMA)
        yield flight_data(batch.serialize(), _lie(asked, cursor(shard, given)))
        _rest_after(asked)
        if batches == 3:
            if name == "cut":
                return
            if name.startswith("breaks "):
                fail(context, name.removeprefix("breaks "))
            if not asked["given"] and name.startswith(("seam ", "down ")):
                fail(context, "UNAVAILABLE")
            if name == "malformed":
                yield flight_data(pa.py_buffer(b"\xff\xff\xff\xff\x08\0\0\0nonsense"))
            if name == "endless":
                threading.Event().wait(60)
    counts = {
        "features": {"rows": sent, "matched": sent, "missing": 0, "strategy": "merge", "amplification": 1}
    }
    report = {"rows": sent, "batches": batches, "cursor": cursor(shard, given), "staging": counts}
    yield from _end(name, report)


def redeem(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    """Answers a ticket of a stream, or of a call that follows streams."""
    asked = json.loads(dict(fields(request))[1])
    if "follow" in asked:
        return follow()
    if asked["name"] == "followed":
        header = dict(context.invocation_metadata())["penstock-follow"]
        context.send_initial_metadata((("penstock-follow", str(header)),))
    return do_get(request, context)


def _lie(asked: dict[str, Any], at: dict[str, Any]) -> bytes:
    """The cursor of a batch, with the lie of the dataset "lies LIE" or, where a stream goes on, of "resumed LIE"."""
    when, _, lie = asked["name"].partition(" ")
    if when == "lies" or (when == "resumed" and asked["given"]):
        changes: dict[str, dict[str, Any]] = {
            "plan": {"plan": "q"},
            "shard": {"shard": {"index": 1, "of": 2}},
            "step": {"step": at["step"] + (at["step"] > 1)},
            "no step": {"step": None},
        }
        texts = {
            "list": b"[1]",
            "depth": b"[" * 100_000,
            "infinity": b'{"plan": "p", "shard": {}, "step": 1e999}',
        }
        return texts.get(lie) or json.dumps({**at, **changes.get(lie, {})}).encode()
    return b"" if asked["name"] == "no cursor" else json.dumps(at).encode()


def _rest_after(asked: dict[str, Any]) -> None:
    """Waits after a batch, if the dataset asks for it."""
    if asked["name"] == "resumed silence" and asked["given"]:
        threading.Event().wait(60)
    if asked["name"] == "followed":
        _flooded.wait(60)


_flooded = threading.Event()


def follow() -> Iterator[bytes]:
    """What a server says again and again to those who follow its streams."""
    yield flight_data(pa.schema([]).serialize())
    for step in range(1, 501):
        said = {"stream": 0, "batches": step, "cursor": cursor({"index": 0, "of": 1}, step * BATCH_ROWS)}
        yield flight_data(None, json.dumps({"moves": said}).encode())
    _flooded.set()


def _moved(asked: dict[str, Any], batches: int, at: dict[str, Any]) -> list[bytes]:
    """The last message of a stream that continues on another server from here; none if it goes on."""
    name = asked["name"]
    if name == "moves ever" or (name == "moves once" and asked["plans"] == 1):
        return [flight_data(None, b'{"moved": {"batches": 0}}')]
    if not name.startswith("moved") or asked["given"] or batches < 3:
        return []
    if name == "moved elsewhere":
        at["step"] += 1
    said = {"moved": {"batches": batches + (name == "moved short"), "cursor": at}}
    late = pa.RecordBatch.from_pylist([{"n": 1}], SCHEMA).serialize()
    return [
        flight_data(None, json.dumps(said).encode()),
        *([flight_data(late, b"{}")] if name == "moved late" else []),
    ]


def _end(name: str, report: dict[str, Any]) -> Iterator[bytes]:
    if name == "miscounted":
        report["rows"] += 1
    if name == "strange report":
        report["staging"] = "none"
    last = flight_data(None, json.dumps({"report": report}).encode())
    if name == "strange message":
        last = flight_data(None, b"[]")
    if name != "no report":
        yield last
    if name == "two reports":
        yield last
    if name == "late batch":
        yield flight_data(pa.RecordBatch.from_pylist([{"n": 1}], SCHEMA).serialize(), b"{}")


def _summary(shards: int) -> dict[str, Any]:
    return {
        "v": 1,
        "plan": "p",
        "pin": {"training": {"uuid": "u", "snapshot": SNAPSHOT, "schema": 0}, "staging": {"features": {}}},
        "lanes": shards,
        "shards": shards,
        "batch_rows": BATCH_ROWS,
        "rows": ROWS,
        "rows_unknown": "",
        "steps": -1,
        "splits": 3,
    }


def _left(ticket: dict[str, Any]) -> dict[str, int]:
    """The metadata of an endpoint."""
    rows = len(numbers(ticket["index"], ticket["of"])[: ticket["end"]]) - ticket["given"]
    return {"v": 1, "rows": rows, "batches": -(-rows // BATCH_ROWS)}


def _found(
    descriptor: flight.FlightDescriptor,
    tickets: list[dict[str, Any]],
    metadata: dict[str, Any] | None,
    rows: int = ROWS,
    schema: pa.Schema = SCHEMA,
) -> bytes:
    endpoints = [
        flight.FlightEndpoint(json.dumps(t).encode(), [], app_metadata=json.dumps(_left(t))) for t in tickets
    ]
    text = b"" if metadata is None else json.dumps(metadata).encode()
    found = flight.FlightInfo(schema, descriptor, endpoints, rows, -1, app_metadata=text)
    return bytes(found.serialize())


def serve() -> tuple[grpc.Server, int]:
    """Starts a server on a free port of the loopback."""
    answers: dict[str, Callable[[bytes, grpc.ServicerContext], Any]] = {
        "GetFlightInfo": get_flight_info,
        "GetSchema": get_schema,
    }
    streams = {"ListFlights": list_flights, "DoAction": do_action, "DoGet": redeem}
    handlers: dict[str, Any] = {
        **{name: grpc.unary_unary_rpc_method_handler(f) for name, f in answers.items()},
        **{name: grpc.unary_stream_rpc_method_handler(f) for name, f in streams.items()},
    }
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("arrow.flight.protocol.FlightService", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


if __name__ == "__main__":
    running, bound = serve()
    print(f"127.0.0.1:{bound}", flush=True)
    sys.stdin.read()
    running.stop(None)
