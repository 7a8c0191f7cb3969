"""Compares the server's explain text of the demo's dataset with a golden file.

It masks what differs between runs or between releases of the Parquet writer: plan, snapshot and
split ids, and sizes of files.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from failure import DemoError

GOLDEN = Path(__file__).parent / "explain.txt"

_MASKS = (
    (re.compile(r"^plan [0-9a-f]{32}"), "plan …"),
    (re.compile(r"digest [0-9a-f]{32}"), "digest …"),
    (re.compile(r"@\d+"), "@…"),
    (re.compile(r"^(  \d+: )[0-9a-f]{16}"), r"\1…"),
    (re.compile(r"[0-9.]+ [KMG]iB"), "… KiB"),
)


def masked(text: str) -> str:
    """The text without the parts that may differ."""
    lines = []
    for line in text.splitlines():
        for pattern, mask in _MASKS:
            line = pattern.sub(mask, line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def check(text: str, golden: Path = GOLDEN) -> None:
    """Compare a text with the golden file, or write the file if it does not exist.

    Raises:
        DemoError: they differ; the message is the difference.
    """
    got = masked(text)
    if not golden.exists():
        golden.write_text(got)
    want = golden.read_text()
    if got != want:
        lines = difflib.unified_diff(
            want.splitlines(), got.splitlines(), golden.name, "explain", n=1, lineterm=""
        )
        raise DemoError("the plan is explained otherwise than before:\n" + "\n".join(lines))
