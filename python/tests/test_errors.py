"""One exception per kind, with and without the server's details."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import errors

KINDS: list[tuple[str, str, type[penstock.Error]]] = [
    ("invalid", "INVALID_ARGUMENT", penstock.Invalid),
    ("not found", "NOT_FOUND", penstock.NotFound),
    ("unauthenticated", "UNAUTHENTICATED", penstock.Unauthenticated),
    ("forbidden", "PERMISSION_DENIED", penstock.Forbidden),
    ("expired", "FAILED_PRECONDITION", penstock.Expired),
    ("conflict", "ABORTED", penstock.Conflict),
    ("exhausted", "RESOURCE_EXHAUSTED", penstock.Exhausted),
    ("corrupt", "DATA_LOSS", penstock.Corrupt),
    ("unavailable", "UNAVAILABLE", penstock.Unavailable),
    ("internal", "INTERNAL", penstock.Internal),
]
DETAILS: dict[str, Any] = {
    "message": "explain: the message",
    "remedy": "the remedy",
    "faults": [
        {"field": "filter", "position": 7, "message": "unexpected )", "nearest": "("},
        {"message": "and 3 more"},
    ],
    "table": "ml.train",
    "file": "a.parquet",
    "row_group": 2,
    "retry_after_ms": 1500,
    "differs": ["seed", "pin.training.snapshot"],
}


@pytest.fixture
def fake(fake_address: str) -> Iterator[penstock.Client]:
    """A client that tries nothing again."""
    with penstock.connect(fake_address, timeout=30, reconnect=0) as client:
        yield client


@pytest.mark.parametrize(("kind", "code", "expected"), KINDS)
@pytest.mark.parametrize("call", ["plan", "explain", "breaks"])
def test_exception_has_the_failures_details(
    fake: penstock.Client, kind: str, code: str, expected: type[penstock.Error], call: str
) -> None:
    asked = f"{code} {json.dumps({'kind': kind, **DETAILS})}"
    with pytest.raises(penstock.Error) as caught:
        if call == "breaks":
            fake.read(f"breaks {asked}").read_all()
        else:
            getattr(fake, call)(f"raises {asked}")
    e = caught.value
    assert type(e) is expected
    assert e.kind == kind
    assert (e.message, e.remedy, e.table, e.file, e.row_group) == (
        "explain: the message",
        "the remedy",
        "ml.train",
        "a.parquet",
        2,
    )
    assert e.faults == (penstock.Fault("filter", "unexpected )", 7, "("), penstock.Fault("", "and 3 more"))
    assert e.retry_after == 1.5
    assert e.differs == ("seed", "pin.training.snapshot")
    assert str(e) == "explain: the message (file a.parquet, row group 2); the remedy"


@pytest.mark.parametrize(("kind", "code", "expected"), KINDS)
@pytest.mark.parametrize("where", ["raises", "breaks", "faulty details"])
def test_status_determines_the_kind_without_details(
    fake: penstock.Client, kind: str, code: str, expected: type[penstock.Error], where: str
) -> None:
    with pytest.raises(penstock.Error) as caught:
        if where == "breaks":
            fake.read(f"breaks {code}").read_all()
        else:
            fake.plan(f"raises {code}" + (" [not details" if where == "faulty details" else ""))
    assert type(caught.value) is expected
    assert (caught.value.kind, caught.value.message, caught.value.faults) == (kind, "the reason", ())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("OUT_OF_RANGE", penstock.Invalid),
        ("DEADLINE_EXCEEDED", penstock.Unavailable),
        ("CANCELLED", penstock.Unavailable),
        ("UNKNOWN", penstock.Internal),
        ("UNIMPLEMENTED", penstock.Internal),
    ],
)
def test_status_codes_of_other_servers(
    fake: penstock.Client, code: str, expected: type[penstock.Error]
) -> None:
    with pytest.raises(penstock.Error) as caught:
        fake.plan(f"raises {code}")
    assert type(caught.value) is expected
    assert caught.value.message == "the reason"


def test_oversized_messages_have_a_remedy() -> None:
    text = "Flight returned resource exhausted error, with message: {}"
    e = errors.from_arrow(pa.ArrowInvalid(text.format("Received message larger than max (5 vs. 4)")))
    assert type(e) is penstock.Exhausted
    assert e.message == "Received message larger than max (5 vs. 4)"
    assert "batch_rows" in e.remedy
    assert "max_batch_bytes" in e.remedy
    assert errors.from_arrow(pa.ArrowInvalid(text.format("too many"))).remedy == ""


def test_kind_of_a_newer_server() -> None:
    e = errors.from_details({"kind": "on strike", "message": "m"})
    assert type(e) is penstock.Error
    assert (e.kind, str(e)) == ("on strike", "m")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind": "unavailable", "retry_after_ms": Infinity}',
        b'{"kind": "unavailable", "retry_after_ms": 1e999}',
        b'{"kind": "unavailable", "retry_after_ms": 1%s}' % (b"0" * 400),
        b'{"kind": "invalid", "faults": [{"position": NaN}]}',
        b'{"kind": "corrupt", "row_group": -Infinity}',
        b"[" * 6000,
        b"\xff",
        b"[]",
    ],
)
def test_details_that_cannot_be_read(raw: bytes) -> None:
    """The status of the call determines the error then."""
    assert errors.from_trailer(raw) is None


CALLS: dict[str, Callable[[penstock.Client], object]] = {
    "status": lambda client: client.status(),
    "verify": lambda client: client.verify("d"),
    "manifest": lambda client: client.manifest("d"),
    "explain_scale": lambda client: client.explain("d", scale="trainers=1"),
    "tables": lambda client: client.tables(),
    "log": lambda client: client.log("a.b"),
    "diff": lambda client: client.diff("a.b"),
    "stats": lambda client: client.stats("a.b"),
    "publish": lambda client: client.publish("a.b", "c"),
    "undo": lambda client: client.undo("a.b"),
    "compact": lambda client: client.compact("a.b"),
    "restore": lambda client: client.restore("a.b", 1),
    "promote": lambda client: client.promote("d", "e"),
    "demote": lambda client: client.demote("a.b", "c"),
    "orphans": lambda client: client.orphans("a.b"),
}


@pytest.mark.parametrize("answer", ["[", "[1]", '{"result": [1]}', '{"progress": {"files": "x"}}'])
@pytest.mark.parametrize("call", CALLS)
def test_answers_that_cannot_be_read(fake_address: str, call: str, answer: str) -> None:
    """Whatever a server sends, a failure is a subclass of Error."""
    if call == "verify" and answer.startswith("{"):
        return  # a report is a dictionary
    with (
        penstock.connect(fake_address, headers={"answer": answer}, reconnect=0) as client,
        pytest.raises(penstock.Internal, match=r"cannot be read|instead of one") as caught,
    ):
        CALLS[call](client)
    assert caught.value.message.startswith("the server")


def test_exceptions_can_be_pickled() -> None:
    e = errors.from_details({"kind": "corrupt", **DETAILS})
    again = pickle.loads(pickle.dumps(e))
    assert type(again) is penstock.Corrupt
    assert vars(again) == vars(e)


def test_pyarrow_exceptions_without_a_status() -> None:
    assert (
        type(errors.from_arrow(pa.ArrowInvalid("bad message"), unclassified=penstock.Corrupt))
        is penstock.Corrupt
    )
    assert type(errors.from_arrow(pa.ArrowInvalid("bad argument"))) is penstock.Invalid
    assert type(errors.from_arrow(OSError("gone"))) is penstock.Internal
    assert errors.from_arrow(pa.ArrowInvalid("")).message == "ArrowInvalid"
