"""The log, reports and commands say that ids in another format match nothing; reports list what is not read."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake import Lake, Row
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
    written: list[Row] = [{"id": key.upper() if i % 3 == 0 else key, "v": i} for i, key in enumerate(KEYS)]
    lake.write(
        "ml.mixed",
        {"id": StringType(), "row": LongType()},
        ("id", 4),
        [{"id": key, "row": 1} for key in KEYS],
    )
    lake.write("features.mixed", {"id": StringType(), "v": LongType()}, ("id", 6), written)
    mixed = {"training": {"table": "ml.mixed"}, "key": ["id"], "staging": [{"table": "features.mixed"}]}
    allowed = {**dataset, "staging": [{"table": "features.f", "min_match": 0}]}
    config = lake.config({"d": dataset, "mixed": mixed, "allowed": allowed})
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


def test_verify_says_that_part_of_the_keys_is_written_otherwise(
    served: tuple[penstock.Client, Server, Path],
) -> None:
    """A third of the staging keys are in upper case."""
    found = served[0].verify("mixed")
    assert found.clean
    (note,) = [f for f in found.findings if f.kind == "spelling"]
    assert note.grade == "note"
    assert note.table == "mixed"
    assert "64 of 64 sampled training keys without a match are in staging in another spelling" in note.message
    assert "which differs in upper and lower case" in note.message
    assert found.tables[1].keys is not None
    assert found.tables[1].keys.matched == 800
    forms = found["tables"][1]["join"]["forms"]
    assert (forms["sampled"], forms["respelled"], forms["differences"]) == (64, 64, ["upper and lower case"])
    assert all(pair["staging"] == pair["training"].upper() for pair in forms["pairs"])
    assert all(pair["training"].strip('"') in KEYS for pair in forms["pairs"])


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
