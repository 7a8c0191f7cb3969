"""What the tours rest on: blocks are found, and what a page shows is held against what comes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[1] / "tour.py"
PAGE = """
# A page

```sh
export GREETING="good day"
```

```json
{"never": "run"}
```

## Second

```python says.py
import os

print(os.environ["GREETING"], 8815)
```

```sh
python3 says.py; pwd
```

```text
good day 8815
…
```

## Third

```sh
echo alone
```
"""


def tour(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs a page's blocks."""
    command = [sys.executable, str(TOUR), str(page), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=page.parent)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page whose blocks leave nothing behind in the checkout."""
    out = tmp_path / "page.md"
    out.write_text(PAGE.replace("export", "mkdir ~/first && cd ~/first\nexport"))
    return out


def test_blocks_share_a_shell_and_files_are_written(page: Path) -> None:
    done = tour(page)
    assert done.returncode == 0, done.stderr
    assert "good day 8815" not in done.stdout  # the port is another one
    assert "good day " in done.stdout


def test_pages_share_a_shell(page: Path) -> None:
    more = page.with_name("more.md")
    more.write_text('```sh\necho "again: $GREETING"\n```\n\n```text\nagain: good day\n```\n')
    assert tour(page, str(more)).returncode == 0
    assert tour(more, str(page)).returncode != 0


def test_page_without_blocks_fails(page: Path) -> None:
    empty = page.with_name("empty.md")
    empty.write_text("# A page\n")
    done = tour(page, str(empty))
    assert done.returncode == 1
    assert "empty.md has no block" in done.stderr


def test_what_is_shown_and_does_not_come_fails(page: Path) -> None:
    page.write_text(page.read_text().replace("good day 8815\n…", "good night 8815\n…"))
    done = tour(page)
    assert done.returncode == 1
    assert "the page shows:\ngood night" in done.stderr


def test_a_block_that_fails_ends_the_tour(page: Path) -> None:
    page.write_text(page.read_text().replace("python3 says.py; pwd", "echo why; exit 3"))
    done = tour(page)
    assert done.returncode != 0
    page.write_text(page.read_text().replace("echo why; exit 3", "echo why; false; echo after"))
    done = tour(page)
    assert done.returncode != 0
    assert "after" not in done.stdout


def test_a_section_alone(page: Path) -> None:
    done = tour(page, "--section", "Third")
    assert done.returncode == 0
    assert done.stdout == "── block 1\nalone\n"
    assert tour(page, "--section", "Fourth").returncode == 1


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [
        ("pyarrow", ""),
        ("/there/python", ""),
        ("no-such-package", "no-such-package"),
        ("pyarrow[none]", "pyarrow[none]"),
    ],
)
def test_pip_of_a_tour_looks_what_is_installed(asked: str, lacking: str) -> None:
    command = [sys.executable, str(TOUR), "--installed", "install", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if lacking else 0)
    assert lacking in done.stdout


def test_commands_are_limited_and_their_time_is_printed(page: Path) -> None:
    # Without a folder of its own, the section would leave its file in the checkout.
    inside = "## Second\n\n```sh\nmkdir ~/first && cd ~/first\n```\n"
    page.write_text(page.read_text().replace("## Second\n", inside))
    done = tour(page, "--section", "Third", "--section", "Second", "--commands", "3")
    assert done.returncode == 1, "Second needs what the first block exports"
    done = tour(page, "--section", "Third", "--commands", "1")
    assert done.returncode == 0
    assert re.search(r"1 commands, [0-9.]+ s of the processors' time", done.stdout)
    assert tour(page, "--section", "Third", "--commands", "0").returncode == 1


def test_sessions_with_a_wheel_have_no_go(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```sh\necho "$WHEEL"; command -v go || echo none\n```\n\n```text\n…/a.whl\nnone\n```\n')
    assert tour(page, "--wheel", str(tmp_path / "a.whl")).returncode == 0
