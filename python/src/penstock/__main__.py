"""Runs the program of the wheel: `python -m penstock serve --config penstock.yaml`."""

from __future__ import annotations

import os
import sys

from penstock import errors
from penstock.private import find_program


def main(arguments: list[str]) -> None:
    """Replaces this process by the program, with the arguments. Exits if there is none."""
    try:
        program = os.fspath(find_program())
    except errors.Error as e:
        sys.exit(f"penstock: {e}")
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
