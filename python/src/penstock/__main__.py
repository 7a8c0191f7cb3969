"""Runs the program of the wheel: `python -m penstock serve --config penstock.yaml`.

`python -m penstock docs [PAGE]` prints the pages of documentation instead.
"""

from __future__ import annotations

import os
import sys

from penstock import errors, pages
from penstock.program import find_program


def main(arguments: list[str]) -> None:
    """Prints documentation, or replaces this process with the program. Exits if there is no program."""
    try:
        if arguments[:1] == ["docs"]:
            print(docs(arguments[1:]), flush=True)
            return
        program = os.fspath(find_program())
    except errors.Error as e:
        sys.exit(f"penstock: {e}")
    except BrokenPipeError:  # the reader has enough, as after "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the exit
        return
    os.execv(program, [program, *arguments])


def docs(asked: list[str]) -> str:
    """Returns the text of the requested pages, or the list of all pages."""
    return "\n\n".join(pages.page(name).rstrip("\n") for name in asked) if asked else pages.contents()


if __name__ == "__main__":
    main(sys.argv[1:])
