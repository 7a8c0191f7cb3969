"""The pages of documentation of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import pages


def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "docs", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_pages_are_listed_and_printed() -> None:
    listed = said()
    assert listed.returncode == 0
    assert f"The pages in {pages.folder()}" in listed.stdout
    assert "\ndatasets: " in listed.stdout
    text = (pages.folder() / "datasets.md").read_text(encoding="utf-8")
    assert said("datasets").stdout == said("docs/datasets.md").stdout == text
    assert said("recipes/rows").stdout.startswith("# ")


def test_a_word_leads_to_pages() -> None:
    assert re.search(
        r"there is no page stats; these pages are about it: statistics, spec/stats, ", said("stats").stderr
    )
    assert "spec/stage" in said("stage").stderr
    assert "about it" not in said("nothing(").stderr


def test_other_files_are_not_pages() -> None:
    for name in ("nothing", "../python/README", "/etc/passwd"):
        failed = said(name)
        assert failed.returncode == 1
        assert f"there is no page {name}" in failed.stderr


def test_a_package_without_pages_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_FOLDERS", (tmp_path,))
    with pytest.raises(penstock.NotFound, match=r"no pages.*wheel"):
        pages.contents()


def test_a_reader_of_pages_may_have_enough() -> None:
    command = [sys.executable, "-m", "penstock", "docs", "datasets"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
