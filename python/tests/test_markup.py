"""The HTML that notebooks show: escaped, and without scripts."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from fake_server import ROWS

import penstock
from penstock import MemoryStatus, errors
from penstock.history import Snapshots, TableDescription, Tables, TableSnapshot
from penstock.markup import Explanation, Report, document
from penstock.plan import DatasetDescription, Datasets

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a&amp;b",
    "</td></table>",
    "$x^2$",
    "'",
]


class Parsed(HTMLParser):
    """The texts and tags of HTML whose tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._opened: list[str] = []
        self.feed(text)
        self.close()
        assert not self._opened

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(shown: str | None) -> Parsed:
    """Parses what an object shows, which has only plain elements, and no color of its own."""
    assert shown is not None
    found = Parsed(shown)
    assert found.tags <= {"div", "strong", "table", "tr", "th", "td", "pre"}
    assert found.attributes <= {"class", "style"}
    assert "color" not in shown
    return found


def test_a_plan_shows_its_columns(fake: penstock.Client) -> None:
    plan = fake.plan("good")
    found = parsed(plan._repr_html_())
    assert f"Plan {plan.id}" in found.texts
    assert "int64" in found.texts
    assert set(plan.schema.names) <= set(found.texts)


def test_a_stream_shows_where_it_is_without_reading(fake: penstock.Client) -> None:
    with fake.read("good") as stream:
        assert "not begun" in parsed(stream._repr_html_()).texts
        assert stream.stats.rows == 0
        stream.read_all()
        found = parsed(stream._repr_html_())
        assert {"ended", str(ROWS)} <= set(found.texts)
        assert isinstance(stream.report, dict)
        assert str(ROWS) in parsed(stream.report._repr_html_()).texts


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_escaped(name: str) -> None:
    schema = pa.schema([pa.field(name, pa.int64())])
    report = Report(
        {name: name, "staging": {name: {name: 3}}, "findings": [{"grade": name}], "cursor": {name: [name]}}
    )
    for shown in (
        document(name, {name: name}, schema),
        report._repr_html_(),
        Explanation(name)._repr_html_(),
    ):
        assert name in parsed(shown).texts
    broken = DatasetDescription(
        name=name, schema=None, rows=None, plan=None, error=errors.Invalid(name, remedy=name)
    )
    assert name in parsed(Datasets([broken])._repr_html_()).texts


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_and_snapshots_are_tables(name: str) -> None:
    at = datetime(2026, 11, 26, tzinfo=UTC)
    described = TableDescription(
        table=name,
        snapshot=5,
        time=at,
        rows=7,
        deletes=0,
        bytes=None,
        files=1,
        partition=("day(ts)", "bucket[4](id)"),
        datasets=(name,),
    )
    found = parsed(Tables([described])._repr_html_())
    assert found.texts.count(name) == 2
    assert {"Tables", "7", str(at), "day(ts), bucket[4](id)"} <= set(found.texts)
    snapshot = TableSnapshot.of(
        {
            "snapshot": "8744736658442914487",
            "time": at.isoformat(),
            "writer": name,
            "branches": ["main", name],
        }
    )
    found = parsed(Snapshots([snapshot])._repr_html_())
    assert {"Snapshots", "8744736658442914487", name, f"main, {name}"} <= set(found.texts)
    assert Snapshots([snapshot]) == (snapshot,)


def test_the_status_of_a_server_is_a_table(fake: penstock.Client) -> None:
    status = fake.status()
    found = parsed(status._repr_html_())
    assert {"Server 0.1.0, up for 60 s", "streams", "sweep-7", "good"} <= set(found.texts)
    whole = replace(status, streams=(), memory=MemoryStatus(limit=None, used=3, idle=0, in_flight=0, peak=9))
    assert {"memory used", "3", "none"} <= set(parsed(whole._repr_html_()).texts)


def test_nested_reports_are_tables() -> None:
    staging = {"clicks": {"rows": 4, "matched": 3}, "users": {"rows": 4, "missing": 1}}
    texts = parsed(Report({"rows": 4, "staging": staging})._repr_html_()).texts
    assert texts == [
        *["Report", "rows", "4", "staging", "rows", "matched", "missing"],
        *["clicks", "4", "3", "users", "4", "1"],
    ]


def test_long_tables_and_texts_are_cut() -> None:
    wide = pa.schema([pa.field(f"c{i}", pa.int8()) for i in range(1000)])
    texts = parsed(document("wide", {"name": "x" * 1000}, wide)).texts
    assert "… and 950 more" in texts
    assert max(map(len, texts)) == 200


def test_reports_and_explanations_are_plain_values() -> None:
    report, text = Report({"rows": 1}), Explanation("a\nb")
    assert json.loads(json.dumps(report)) == report == {"rows": 1} == pickle.loads(pickle.dumps(report))
    assert text == "a\nb" == pickle.loads(pickle.dumps(text))
    assert text.splitlines() == ["a", "b"]
