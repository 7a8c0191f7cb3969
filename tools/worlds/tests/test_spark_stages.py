"""Random stages of what programs send, as Spark then reads them: each tenth of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plain import plain_rows
from spark_session import attach
from staging import PYTHON, same

_LONG = "PENSTOCK_LONG" in os.environ
_STAGES = 2000 if _LONG else 60
_PROGRAM = Path(__file__).parents[1] / "stage_worlds.py"


# spec: stage-90
@pytest.mark.timeout(7200 if _LONG else 300)
def test_random_stages(jvm: Any, tmp_path: Path) -> None:
    """Spark reads the rows of a snapshot as they were sent."""
    lake, tenth = tmp_path / "lake", tmp_path / "tenth"
    tenth.mkdir()
    made = subprocess.run(
        [PYTHON, "-W", "ignore", str(_PROGRAM), str(lake), "2", str(_STAGES), str(tenth)],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    session = jvm.newSession()
    attach(session, lake, "default")
    read = 0
    for file in sorted(tenth.iterdir()):
        want = json.loads(file.read_text())
        columns = ", ".join(f"`{name}`" for name in want["columns"])
        text = f"SELECT {columns} FROM default.{want['table']} VERSION AS OF {want['snapshot']}"
        same(plain_rows(session.sql(text).toArrow()), want["rows"], f"{want['table']}, Spark")
        read += 1
    assert read > 0
