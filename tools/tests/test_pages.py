"""The blocks of pages that nothing runs are sound at least: Python compiles, shells can read them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/recipes/*.md")),
    ROOT / "README.md",
    ROOT / "python/README.md",
]


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_there_are_blocks() -> None:
    assert sum(len(blocks(page, "python")) for page in PAGES) > 20
    assert sum(len(blocks(page, "sh")) for page in PAGES) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_sound(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, str(page), "exec")
    for block in blocks(page, "sh"):
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert done.returncode == 0, block + done.stderr
