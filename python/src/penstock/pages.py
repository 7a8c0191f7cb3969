"""The documentation pages in the wheel, for `python -m penstock docs`."""

from __future__ import annotations

import re
from pathlib import Path

from penstock import errors

# The folders in a wheel and in a checkout.
_FOLDERS = (Path(__file__).parent / "docs", Path(__file__).parents[3] / "docs")


# The maximum number of pages that an error names.
_MAX_ABOUT = 5


def folder() -> Path:
    """Returns the folder of the pages.

    Raises:
        NotFound: there are no pages, because the package was installed from a removed checkout.
    """
    for found in _FOLDERS:
        if (found / "README.md").is_file():
            return found
    raise errors.NotFound("this package has no pages", remedy="install a wheel of Penstock")


def page(name: str) -> str:
    """Returns the text of a page.

    Args:
        name: the name, such as "datasets" or "recipes/rows", or as in messages, "docs/datasets.md".

    Raises:
        NotFound: there is no such page.
    """
    wanted = name.removeprefix("docs/").removesuffix(".md")
    root = folder()
    if wanted not in names():
        about = _about(wanted)
        ways = "" if not about else f"these pages are about it: {', '.join(about)}; "
        raise errors.NotFound(
            f"there is no page {name}", remedy=ways + "python -m penstock docs lists the pages"
        )
    return (root / f"{wanted}.md").read_text(encoding="utf-8")


def names() -> list[str]:
    """Returns the names of all pages, the index first."""
    root = folder()
    found = sorted(one.relative_to(root).with_suffix("").as_posix() for one in root.rglob("*.md"))
    return ["README", *(name for name in found if name != "README")]


def _about(word: str) -> list[str]:
    """Returns the pages that have the name, the command, or the word in a heading, those with the most mentions first."""
    heading = re.compile(rf"^#.*\b{re.escape(word)}\b", re.IGNORECASE | re.MULTILINE)
    command = re.compile(rf"\bpenstock {re.escape(word)}\b")
    found: dict[str, int] = {}
    for name in names():
        text = (folder() / f"{name}.md").read_text(encoding="utf-8")
        mentions = len(heading.findall(text)) + len(command.findall(text))
        if mentions or name.rpartition("/")[2] == word:
            found[name] = mentions
    return sorted(found, key=lambda name: -found[name])[:_MAX_ABOUT]


def contents() -> str:
    """Returns a text with the folder and a line for each page."""
    root = folder()
    lines = [f"{name}: {_title(root / f'{name}.md')}" for name in names()]
    return "\n".join([f"The pages in {root}. python -m penstock docs PAGE prints one.", "", *lines])


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().lstrip("# ")
