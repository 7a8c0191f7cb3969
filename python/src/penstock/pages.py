"""The pages of documentation that the wheel has: `python -m penstock docs`."""

from __future__ import annotations

from pathlib import Path

from penstock import errors

# In a wheel, or in a checkout.
_FOLDERS = (Path(__file__).parent / "docs", Path(__file__).parents[3] / "docs")


def folder() -> Path:
    """The folder of the pages.

    Raises:
        NotFound: the package was installed from a checkout that is not there.
    """
    for found in _FOLDERS:
        if (found / "README.md").is_file():
            return found
    raise errors.NotFound("this package has no pages", remedy="install a wheel of Penstock")


def page(name: str) -> str:
    """The text of a page.

    Args:
        name: such as "datasets", "recipes/rows", or as messages name it: "docs/datasets.md".

    Raises:
        NotFound: there is no such page.
    """
    wanted = name.removeprefix("docs/").removesuffix(".md")
    root = folder()
    if wanted not in names():
        raise errors.NotFound(f"there is no page {name}", remedy="python -m penstock docs lists the pages")
    return (root / f"{wanted}.md").read_text(encoding="utf-8")


def names() -> list[str]:
    """The names of all pages, the index first."""
    root = folder()
    found = sorted(one.relative_to(root).with_suffix("").as_posix() for one in root.rglob("*.md"))
    return ["README", *(name for name in found if name != "README")]


def contents() -> str:
    """The folder, and a line for each page."""
    root = folder()
    lines = [f"{name}: {_title(root / f'{name}.md')}" for name in names()]
    return "\n".join([f"The pages in {root}. python -m penstock docs PAGE prints one.", "", *lines])


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().lstrip("# ")
