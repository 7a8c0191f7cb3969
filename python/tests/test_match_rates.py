"""The log, reports and commands say that ids in another format match nothing; reports list what is not read."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake import Lake, Row
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType, StringType
from server import BINARY, Server

import penstock

ROWS = 120
KEYS = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(i))) for i in range(1200)]
WARNING = f"0 of {ROWS} training rows match (0%); penstock verify d compares the keys of both tables"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[penstock.Client, Server, Path]]:
    """A dataset of ids that the tables write in different ways, and one of a staging table without matches."""
    lake = Lake(Path(tmp_path_factory.mktemp("ids")))
    ids: list[Row] = [{"id": f"R-{i:07}", "row": i} for i in range(ROWS)]
    lake.write("ml.train", {"id": StringType(), "row": LongType()}, ("id", 4), ids)
    features: list[Row] = [{"id": str(i), "v": i} for i in range(ROWS)]
    lake.write("features.f", {"id": StringType(), "v": LongType()}, ("id", 2), features)
    dataset: dict[str, Any] = {
        "training": {"table": "ml.train"},
        "key": ["id"],
        "staging": [{"table": "features.f"}],
    }
    lake.write(
        "ml.keys", {"id": StringType(), "row": LongType()}, ("id", 4), [{"id": k, "row": 1} for k in KEYS]
    )
    right: list[Row] = [{"id": key, "v": i} for i, key in enumerate(KEYS)]
    written = lake.write("features.keys", {"id": StringType(), "v": LongType()}, ("id", 6), right)
    keys = written.table
    keys.manage_snapshots().create_branch(written.snapshot, "candidate").commit()
    mixed = [{"id": key.upper() if i % 3 == 0 else key, "v": i} for i, key in enumerate(KEYS)]
    keys.overwrite(pa.Table.from_pylist(mixed, schema_to_pyarrow(keys.schema())), branch="candidate")
    lake.catalog.engine.dispose()
    named: dict[str, Any] = {
        "training": {"table": "ml.keys"},
        "key": ["id"],
        "staging": [{"table": "features.keys"}],
    }
    candidate = {**named, "staging": [{"table": "features.keys", "ref": "candidate"}]}
    allowed = {**dataset, "staging": [{"table": "features.f", "min_match": 0}]}
    config = lake.config({"d": dataset, "right": named, "candidate": candidate, "allowed": allowed})
    with Server(config) as server, penstock.connect(server.address) as client:
        yield client, server, config


def lines_of(config: Path, message: str, dataset: str) -> list[str]:
    """Lines of the server's log."""
    lines = config.with_suffix(".log").read_text().splitlines()
    return [line for line in lines if message in line and f"dataset={dataset}" in line]


def read(client: penstock.Client, dataset: str, **query: Any) -> dict[str, Any]:
    """The report of a whole stream."""
    with client.read(dataset, **query) as stream:
        rows = sum(batch.num_rows for batch in stream)
        assert rows == ROWS
        report = stream.report
    assert report is not None
    return report


def test_report_log_cat_and_verify_say_that_ids_differ(
    served: tuple[penstock.Client, Server, Path],
) -> None:
    client, server, config = served
    assert read(client, "d")["staging"]["f"]["warning"] == WARNING
    found = client.verify("d")
    assert [f["kind"] for f in found["findings"] if f["grade"] != "note"] == ["few_matches"]
    assert "differ in letters before or after the digits" in found["findings"][0]["message"]
    assert not found.clean
    assert (found.findings[0].kind, found.findings[0].grade) == ("few_matches", found["findings"][0]["grade"])
    training, staging = found.tables
    assert training.keys is None
    assert staging.keys is not None
    assert (staging.name, staging.keys.training_rows, staging.keys.matched, staging.keys.match_rate) == (
        "f",
        ROWS,
        0,
        0,
    )
    assert staging.rows == staging.keys.rows == sum(file["rows"] for file in found["tables"][1]["files"])
    forms = found["tables"][1]["join"]["forms"]
    assert forms["training"]["types"] == forms["staging"]["types"] == ["utf8"]
    assert all(pair["training"].strip('"').startswith("R-0000") for pair in forms["pairs"])
    warned = lines_of(config, "few rows match a staging table", "d")
    assert len(warned) == 1
    assert WARNING in warned[0]
    address = ["--uri", f"grpc://{server.address}"]
    command = [str(BINARY), "cat", "d", "--format", "csv"]
    cat = subprocess.run([*command, *address], check=True, capture_output=True, text=True)
    assert cat.stderr == f"{ROWS} rows; f matched 0 of {ROWS}\nwarning: f: {WARNING}\n"
    few = subprocess.run([*command, "--limit", "3", *address], check=True, capture_output=True, text=True)
    assert few.stderr.startswith(
        "3 rows, and there are more; --limit 0 gives all; of the rows that were read, f matched 0 of "
    )


# spec: join-112, join-114
def test_verify_says_that_part_of_the_keys_is_written_otherwise(
    served: tuple[penstock.Client, Server, Path],
) -> None:
    """A third of the staging keys are in upper case."""
    found = served[0].verify("candidate")
    assert found.clean
    (note,) = [f for f in found.findings if f.kind == "spelling"]
    assert note.grade == "note"
    assert note.table == "keys"
    assert "64 of 64 sampled training keys without a match are in staging in another spelling" in note.message
    assert "which differs in upper and lower case" in note.message
    assert found.tables[1].keys is not None
    assert found.tables[1].keys.matched == 800
    forms = found["tables"][1]["join"]["forms"]
    assert (forms["sampled"], forms["respelled"], forms["differences"]) == (64, 64, ["upper and lower case"])
    assert all(pair["staging"] == pair["training"].upper() for pair in forms["pairs"])
    assert all(pair["training"].strip('"') in KEYS for pair in forms["pairs"])
    assert len(found.tables[1].keys.unmatched) == 5
    assert {key.strip('"') for key in found.tables[1].keys.unmatched} <= set(KEYS)
    assert [f for f in served[0].verify("right").findings if f.kind == "spelling"] == []


NOTE = (
    "64 of 64 sampled training keys without a match are in staging in another spelling, which differs in upper and lower "
    "case; penstock verify candidate shows such keys of both tables"
)


# spec: join-115
def test_stats_of_a_dataset_say_that_keys_are_written_otherwise(
    served: tuple[penstock.Client, Server, Path], tmp_path: Path
) -> None:
    client, server, _ = served
    found = client.stats("candidate", against="right", no_values=True)
    assert found.entries["keys"].note == NOTE
    assert found.alarms[0].measure == "match_rate"
    assert found.alarms[0].text.startswith("rows with a match are 66.7% of the rows, and were 100% (limit ")
    assert found.alarms[0].text.endswith("; " + NOTE)
    page = tmp_path / "page.html"
    found.to_html(page)
    assert page.read_text().count(NOTE) == 2
    assert client.stats("right").entries["keys"].note == ""
    command = [str(BINARY), "stats", "candidate", "--uri", f"grpc://{server.address}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (
        f"  800 of 1200 training rows match (66.7%); 0 have a null in the key, and 0 match several staging rows\n  {NOTE}\n"
        in text
    )


# spec: stats-24, stats-35
def test_stats_of_a_table_name_another_form_of_keys(served: tuple[penstock.Client, Server, Path]) -> None:
    found = served[0].stats("features.keys", at="candidate", against="main")
    assert [(a.column, a.measure) for a in found.alarms] == [("id", "form")]
    assert found.alarms[0].text == (
        "texts with upper-case letters, digits, '-' and 36 characters are 33.3% of all texts that are not empty, and were 0% (limit 7.85%)"
    )
    assert served[0].stats("features.keys", at="main", against="main").alarms == ()


def test_min_match_of_0_silences_the_warning(served: tuple[penstock.Client, Server, Path]) -> None:
    client, _, config = served
    assert "warning" not in read(client, "allowed")["staging"]["f"]
    assert not lines_of(config, "few rows match a staging table", "allowed")
    assert {f["grade"] for f in client.verify("allowed")["findings"]} == {"note"}


def test_report_and_explain_name_what_is_not_read(served: tuple[penstock.Client, Server, Path]) -> None:
    client, _, _ = served
    report = read(client, "d", columns=["row"])
    assert report["unread"] == ["f"]
    assert report["staging"] == {}
    assert "unread" not in read(client, "d", columns=["row", "v"])
    assert "1 staging table that the query does not need: f" in client.explain("d", columns=["row"])
    assert "not read: the query uses none of its values" in client.explain("d", columns=["row"], splits=True)
    assert json.dumps(report["cursor"]) == json.dumps(read(client, "d")["cursor"])
