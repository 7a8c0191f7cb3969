"""Runs the tour of a README: its blocks, in order, as one shell session.

Blocks of the section "A tour in five minutes" count: those marked sh run as
they stand, those marked python through the demo's Python. The port that the
text names is replaced by a free one, so that a running server is not in the
way. The first block that fails ends the tour with its exit code.

    python tools/tour.py README.md
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

SECTION = "A tour in five minutes"
PORT = "8815"
PYTHON = ".venv/demo/bin/python"


def blocks(text: str) -> list[tuple[str, str]]:
    """Returns language and text of each block of the tour."""
    section = text.partition(f"## {SECTION}\n")[2]
    section = re.split(r"^## ", section, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```(sh|python)\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)


def script(found: list[tuple[str, str]]) -> str:
    """Puts the blocks together as one bash script that ends what it started."""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, (language, text) in enumerate(found, start=1):
        lines.append(f"echo '── tour, block {number}'")
        lines.append(text if language == "sh" else f"{PYTHON} - <<'PENSTOCK_TOUR'\n{text}PENSTOCK_TOUR")
    return "\n".join(lines)


def free_port() -> str:
    """Returns a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def main() -> int:
    """Runs the tour of the file that the command line names."""
    readme = Path(sys.argv[1])
    found = blocks(readme.read_text(encoding="utf-8"))
    if not found:
        print(f"{readme} has no block in a section {SECTION!r}", file=sys.stderr)
        return 1
    text = script(found).replace(PORT, free_port())
    return subprocess.run(["bash", "-c", text], cwd=readme.parent.resolve(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
