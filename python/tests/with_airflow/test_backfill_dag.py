"""The example DAG for Airflow, run by Airflow on real tables, with commands that fail in each way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake import Lake
from pyiceberg.types import IntegerType, StringType
from server import BINARY

FOLDER = Path(__file__).parent
DAG = FOLDER.parents[2] / "deploy" / "airflow" / "backfill.py"
DAY = "2026-11-26"
REQUESTS = 5_000
OLD, NEW = range(1_000), range(1_000, 4_000)
ONCE = ["success", 1]

# A program named penstock that comes first on the PATH. The first call of the command in the file "command" runs the file "fault" as a
# script, with the arguments and $PROGRAM; all other calls are passed on.
STAND_IN = """#!/bin/bash
cd {folder}
if [ "$1" = "$(cat command)" ] && mkdir once 2>/dev/null; then source ./fault; fi
exec "$PROGRAM" "$@"
"""


@dataclass(frozen=True)
class Site:
    """A lake with a staging table of the first requests, files of one more day, and an Airflow."""

    lake: Lake
    environment: dict[str, str]

    def fault(self, command: str, script: str) -> None:
        """Makes the first call of a command run a script instead."""
        (self.lake.folder / "command").write_text(command)
        (self.lake.folder / "fault").write_text(script)

    def run(self, hour: int = 0) -> dict[str, object]:
        """Runs the DAG for the day; returns the states and the numbers of tries.

        Args:
            hour: part of the date of the run, which is also its start here, and in the token.
        """
        done = subprocess.run(
            [sys.executable, FOLDER / "run_dag.py", DAG, f"{DAY}T{hour:02}:00:00"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        print(done.stdout)
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found

    def clicks(self, branch: str = "main") -> list[tuple[str, int]]:
        """The rows of a branch of the staging table, sorted."""
        table = self.lake.catalog.load_table("features.history")
        snapshot = table.refs()[branch].snapshot_id
        rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        return sorted((row["request_id"], row["clicks"]) for row in rows)


def expected(*requests: range) -> list[tuple[str, int]]:
    return sorted((f"r{i:05d}", i % 50) for r in requests for i in r)


def write(path: Path, rows: list[tuple[str, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    keys, clicks = zip(*rows, strict=True)
    pq.write_table(pa.table({"request_id": keys, "clicks": pa.array(clicks, pa.int32())}), path)


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow with an empty database."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAG.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], env=environment, check=True, timeout=240
    )
    return environment


@pytest.fixture
def site(tmp_path: Path, airflow: dict[str, str]) -> Site:
    lake = Lake(tmp_path)
    shown = [{"request_id": f"r{i % REQUESTS:05d}", "item": i} for i in range(REQUESTS * 4)]
    lake.write(
        "ml.impressions", {"request_id": StringType(), "item": IntegerType()}, ("request_id", 8), shown
    )
    training = {"training": {"table": "ml.impressions"}, "key": ["request_id"]}
    config = lake.config(
        {
            "clicks": {**training, "staging": [{"table": "features.history"}]},
            "clicks_candidate": {
                **training,
                "staging": [{"table": "features.history", "ref": "candidate", "min_match": 0.7}],
            },
        },
        writes={"namespaces": ["features"]},
    )
    write(tmp_path / "first.parquet", expected(OLD))
    write(tmp_path / "days" / DAY / "part.parquet", expected(NEW))
    first = ["stage", "features.history", str(tmp_path / "first.parquet"), "--key", "request_id"]
    subprocess.run(
        [BINARY, *first, "--like", "ml.impressions", "--config", str(config)], check=True, timeout=120
    )
    stand_in = tmp_path / "bin" / "penstock"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(folder=tmp_path))
    stand_in.chmod(0o755)
    (tmp_path / "command").touch()
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    paths = {"PENSTOCK_CONFIG": str(config), "PENSTOCK_FILES": str(tmp_path / "days")}
    return Site(lake, {**airflow, **paths, "PROGRAM": str(BINARY), "PATH": path})


def test_a_day_is_published_and_a_second_run_adds_nothing(site: Site) -> None:
    for _ in range(2):
        assert site.run() == {"run": "success", "stage": ONCE, "verify": ONCE, "publish": ONCE}
        assert site.clicks() == expected(OLD, NEW)


def test_a_lost_answer_of_stage_is_no_second_write(site: Site) -> None:
    """The second try finds its token, although the rows of its file are in another order."""
    write(site.lake.folder / "other.parquet", expected(NEW)[::-1])
    site.fault("stage", f'"$PROGRAM" "$@"; cp other.parquet days/{DAY}/part.parquet; kill -9 $$')
    assert site.run() == {"run": "success", "stage": ["success", 2], "verify": ONCE, "publish": ONCE}
    assert site.clicks() == expected(OLD, NEW)


@pytest.mark.parametrize(
    ("command", "script", "task"),
    [("stage", "kill -9 $$", "stage"), ("verify", "exit 3", "verify"), ("serve", "kill -9 $$", "publish")],
)
def test_a_failure_that_may_pass_is_repeated(site: Site, command: str, script: str, task: str) -> None:
    site.fault(command, script)
    assert site.run() == {
        "run": "success",
        "stage": ONCE,
        "verify": ONCE,
        "publish": ONCE,
        task: ["success", 2],
    }
    assert site.clicks() == expected(OLD, NEW)


@pytest.mark.parametrize("code", [2, 4])
def test_a_stage_that_would_fail_again_is_not_repeated(site: Site, code: int) -> None:
    site.fault("stage", f"exit {code}")
    found = site.run()
    assert (found["run"], found["stage"]) == ("failed", ["failed", 1])
    assert site.clicks() == expected(OLD)


def test_rows_that_break_a_rule_are_not_published(site: Site) -> None:
    write(site.lake.folder / "days" / DAY / "part.parquet", expected(NEW[:100]))
    found = site.run()
    assert (found["run"], found["stage"], found["verify"]) == ("failed", ONCE, ["failed", 1])
    assert site.clicks() == expected(OLD)
    assert site.clicks("candidate") == expected(OLD, NEW[:100])


def test_after_a_conflict_the_branch_is_made_anew(site: Site) -> None:
    """Another job commits to main after the rows were verified; docs/jobs.md says how the day gets there."""
    write(site.lake.folder / "more.parquet", expected(range(4_000, 4_100)))
    config = site.environment["PENSTOCK_CONFIG"]
    site.fault("verify", f'"$PROGRAM" stage features.history more.parquet --config {config}')
    found = site.run()
    assert (found["run"], found["verify"], found["publish"]) == ("failed", ONCE, ["failed", 1])
    assert site.clicks() == expected(OLD, range(4_000, 4_100))
    staged = site.lake.catalog.load_table("features.history").refs()["candidate"].snapshot_id
    undo = [
        "undo",
        "features.history",
        "--branch",
        "candidate",
        "--from",
        "none",
        "--to",
        str(staged),
        "--no-check",
    ]
    subprocess.run([BINARY, *undo, "--config", config], check=True, timeout=120)
    assert site.run(hour=1)["run"] == "success"  # Airflow gives a run that is cleared another start
    assert site.clicks() == expected(OLD, NEW, range(4_000, 4_100))
