"""The documentation pages in the wheel, for `python -m penstock docs`."""

from __future__ import annotations

from pathlib import Path

from penstock import errors

# The folders in a wheel and in a checkout.
_FOLDERS = (Path(__file__).parent / "docs", Path(__file__).parents[3] / "docs")


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
        raise errors.NotFound(f"there is no page {name}", remedy="python -m penstock docs lists the pages")
    return (root / f"{wanted}.md").read_text(encoding="utf-8")


def names() -> list[str]:
    """Returns the names of all pages, the index first."""
    root = folder()
    found = sorted(one.relative_to(root).with_suffix("").as_posix() for one in root.rglob("*.md"))
    return ["README", *(name for name in found if name != "README")]


def contents() -> str:
    """Returns a text with the folder and a line for each page."""
    root = folder()
    lines = [f"{name}: {_title(root / f'{name}.md')}" for name in names()]
    return "\n".join([f"The pages in {root}. python -m penstock docs PAGE prints one.", "", *lines])


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().lstrip("# ")
