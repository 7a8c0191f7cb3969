"""Random stages of what programs send, as PyIceberg, DuckDB and pyarrow then read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_LONG = "PENSTOCK_LONG" in os.environ
_STAGES = 2000 if _LONG else 16


# spec: stage-1, stage-20, stage-34, stage-43
@pytest.mark.timeout(3600 if _LONG else 600)
@pytest.mark.filterwarnings("ignore")  # PyIceberg's, of what it does to rows that it appends
def test_random_stages(tmp_path: Path) -> None:
    """All rows are read as they were sent, and what is refused is as documented."""
    import stage_worlds

    report = stage_worlds.run(tmp_path / "lake", 1, _STAGES)
    assert report.wrong == []
    assert report.stages >= _STAGES
    assert report.reads > _STAGES
    assert set(report.ways) == {"client", "flight", "file"}
    assert report.refused
