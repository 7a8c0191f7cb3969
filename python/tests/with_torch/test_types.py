"""What type checkers say of an IterableDataset and what it yields."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.torch import Converter, IterableDataset
from penstock.torch.options import Options
from penstock.torch.rules import Rules

RIGHT = (Path(__file__).parent / "typed_loops.py").read_text()

WRONG = """
from penstock.torch import IterableDataset

for batch in IterableDataset("localhost", "d"):
    batch.row
"""


def checked(folder: Path, text: str) -> str:
    """What mypy prints about a program."""
    program = folder / "program.py"
    program.write_text(text)
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


# spec: trainer-20
@pytest.mark.timeout(300)
def test_type_checkers_know_what_an_iteration_yields(tmp_path: Path) -> None:
    assert checked(tmp_path, RIGHT).startswith("Success")
    assert '"Batch" has no attribute "row"; maybe "rows"?' in checked(tmp_path, WRONG)


def test_signatures_list_every_option() -> None:
    given = inspect.signature(IterableDataset).parameters
    assert set(Options.__annotations__) <= set(given)
    assert set(penstock.RunQuery.__annotations__) <= set(given)
    assert list(inspect.signature(Converter).parameters) == ["schema", *Rules.__annotations__]
