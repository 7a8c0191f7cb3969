"""Statistics of tables and datasets, with types and as pages of notebooks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from server import BINARY, Server
from stage_house import TABLE, House
from test_markup import HOSTILE, Parsed

import penstock

COUNT = 200


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def rows(first: int = 0, country: str | None = "CH") -> pa.Table:
    numbers = range(first, first + COUNT)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "country": pa.array([country] * COUNT, pa.string()),
            "clicked": pa.array([i % 2 for i in numbers], pa.int32()),
            "later": pa.array([7.0 + i % 2 for i in numbers], pa.float64()),
        }
    )


# spec: stats-8
def test_a_table_is_described(house: House, client: penstock.Client, tmp_path: Path) -> None:
    first = client.stage(TABLE, rows(), key=["id"], buckets=1)
    seen: list[penstock.ChangeProgress] = []
    found = client.stats(TABLE, progress=seen.append)
    assert (found.table, found.dataset, found.snapshot, found.rows) == (TABLE, "", first.snapshot, COUNT)
    assert (found.files, found.kept, found.entries, found.alarms) == (1, "", {}, ())
    assert found.time is not None
    assert found.sample.quantile_error == 0
    assert list(found.columns) == ["id", "country", "clicked", "later"]
    number, country = found.columns["id"], found.columns["country"]
    assert (number.type, number.min, number.max, number.mean) == ("int64", 0, COUNT - 1, (COUNT - 1) / 2)
    assert (number.nulls, number.values, number.zeros, number.distinct) == (0, COUNT, 1, COUNT)
    assert number.quantiles[0.5] == (COUNT - 1) // 2
    assert number.histogram is not None
    assert sum(number.histogram.counts) == COUNT
    assert country.top == (penstock.FrequentValue("CH", COUNT, 1.0),)
    assert (country.histogram, country.mean, country.mean_bytes) == (None, None, 2.0)
    assert isinstance(found.columns["later"].max, float)
    assert {one.step for one in seen} <= {"read"}

    quiet = client.stats(TABLE, "main", columns=["country"], no_values=True, exact=True)
    assert list(quiet.columns) == ["country"]
    assert (quiet.columns["country"].top, quiet.columns["country"].min) == ((), None)
    kept = client.stats(TABLE, keep=True)
    assert kept.kept.endswith(".stats")
    with pytest.raises(penstock.NotFound, match="contry"):
        client.stats(TABLE, columns=["contry"])
    with pytest.raises(penstock.Unavailable):
        client.stats(TABLE, timeout=0.000001)

    command = [str(BINARY), "stats", TABLE, "--json", "--config", str(house.config)]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert penstock.Statistics.of([printed, {"html": ""}]) == found
    page = tmp_path / "page.html"
    found.to_html(page)
    command += ["--html", str(tmp_path / "local.html")]
    subprocess.run(command, capture_output=True, check=True)
    assert page.read_text() == (tmp_path / "local.html").read_text() == found.page


# spec: stats-22, stats-61
def test_alarms_are_changes_and_leaks(client: penstock.Client) -> None:
    first = client.stage(TABLE, rows(), key=["id"], buckets=1)
    client.stage(TABLE, rows(COUNT, None))
    found = client.stats(TABLE, against=first.snapshot, label="clicked", columns=["country", "later"])
    assert found.label is not None
    assert (found.label.measure, found.label.columns[0].column) == ("auc", "later")
    assert found.against is not None
    assert (found.against.table, found.against.rows) == (TABLE, COUNT)
    assert [(one.column, one.partition, one.measure) for one in found.alarms][:2] == [
        ("later", "", "auc"),
        ("country", "", "nulls"),
    ]
    assert "it probably has the label itself" in found.alarms[0].text
    nulls = found.against.alarms[0]
    assert (nulls.base, nulls.value, nulls.alarm, nulls.text) == (0.0, 0.5, True, found.alarms[1].text)


# spec: stats-50, stats-54
def test_a_dataset_is_described(house: House) -> None:
    entry = "{table: features.origin, prefix: origin_, columns: [country]}"
    text = house.config.read_text().replace("key: [id]", f"key: [id], staging: [{entry}]")
    house.config.write_text(text)
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        check_dataset(client)


def check_dataset(client: penstock.Client) -> None:
    client.stage(TABLE, rows(), key=["id"], buckets=1)
    client.stage("features.origin", rows(COUNT // 2, "DE"), key=["id"], buckets=1)
    found = client.stats("history", against="history")
    assert (found.table, found.dataset, found.training, found.rows) == ("", "history", TABLE, COUNT)
    assert (found.files, found.time) == (None, None)
    origin = found.entries["origin"]
    assert (origin.table, origin.matched, origin.match_rate, origin.null_keys) == (
        "features.origin",
        COUNT // 2,
        0.5,
        0,
    )
    assert origin.keys is not None
    assert (origin.keys.keys, origin.keys.orphan_keys) == (COUNT, COUNT // 2)
    assert (origin.age, list(origin.columns)) == (None, ["origin_country"])
    assert found.against is not None
    assert (found.against.dataset, found.against.alarms) == ("history", ())
    assert {(one.entry, one.cause) for one in found.against.changes} == {("", ""), ("origin", "")}
    with pytest.raises(penstock.NotFound):
        client.stats("histori")
    with pytest.raises(penstock.Invalid, match="refs"):
        client.stats("history", "main")


class Frame(HTMLParser):
    """The one frame of what a notebook shows, and the texts outside of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.page, self.sandbox, self.outside = "", False, ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "iframe")
        if tag == "iframe":
            found = dict(attrs)
            assert not self.page
            assert "sandbox" in found
            assert not found["sandbox"]
            self.page = found["srcdoc"] or ""

    def handle_data(self, data: str) -> None:
        self.outside += data


def test_notebooks_show_hostile_names_as_text(client: penstock.Client) -> None:
    names = [f"{i}{text}" for i, text in enumerate(HOSTILE)]
    table = pa.table({"id": pa.array(range(len(names)), pa.int64()), **dict.fromkeys(names, names)})
    client.stage(TABLE, table, key=["id"], buckets=1)
    found = client.stats(TABLE)
    shown = Frame(found._repr_html_())
    assert shown.outside == f"Statistics of {TABLE}: {len(names):,} rows, {len(found.alarms)} alarms"
    assert "Content-Security-Policy" in shown.page
    page = Parsed(shown.page)
    assert not page.tags & {"script", "img", "a", "iframe", "object", "link"}
    assert not [name for name in page.attributes if name.startswith("on")]
    for name in names:
        assert name in page.texts
