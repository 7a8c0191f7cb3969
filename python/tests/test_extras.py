"""The package without the libraries that only its extras install."""

from __future__ import annotations

import subprocess
import sys


def ran(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_import_does_not_load_extras() -> None:
    program = (
        "import sys, penstock; print(sorted({'torch', 'torchrec', 'pandas', 'polars'} & set(sys.modules)))"
    )
    assert ran(program) == "[]\n"


def test_import_error_without_torch_says_what_to_install() -> None:
    program = """
import sys
sys.modules["torch"] = None  # as if it were not installed
try:
    import penstock.torch
except ImportError as e:
    print(e.name, e)
"""
    assert ran(program) == "torch penstock.torch needs PyTorch: pip install 'penstock[torch]'\n"
