"""The modules of the package import each other in one direction."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import penstock

# These need packages that not every user has. The other modules do not import them.
OPTIONAL = ("penstock.daft", "penstock.polars", "penstock.ray", "penstock.spark", "penstock.torch")


def modules() -> dict[str, str]:
    """The sources of all modules, by name."""
    folder = Path(penstock.__file__).parent
    found = {}
    for file in folder.rglob("*.py"):
        parts = ["penstock", *file.relative_to(folder).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text()
    return found


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """What each module imports of the others: also within functions, and for types alone."""
    return {name: set(_imported(ast.parse(text), sources)) & sources.keys() for name, text in sources.items()}


def _imported(tree: ast.Module, known: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known.keys() or {node.module}


def test_no_modules_import_each_other() -> None:
    graphlib.TopologicalSorter(imports(modules())).prepare()  # raises an error that names them


@pytest.mark.parametrize(
    "text",
    [
        "from penstock.b import B",
        "from penstock import b",
        "import penstock.b",
        "def f():\n    from penstock.b import B",
        "if TYPE_CHECKING:\n    from penstock.b import B",
    ],
)
def test_every_form_of_an_import_counts(text: str) -> None:
    sources = {"penstock": "", "penstock.a": text, "penstock.b": "from penstock.a import A"}
    with pytest.raises(graphlib.CycleError, match=r"penstock\.a"):
        graphlib.TopologicalSorter(imports(sources)).prepare()


def test_modules_for_optional_packages_are_not_needed() -> None:
    found = imports(modules())
    needed = {
        name: sorted(one for one in theirs if one.startswith(OPTIONAL))
        for name, theirs in found.items()
        if not name.startswith(OPTIONAL)
    }
    assert {name: theirs for name, theirs in needed.items() if theirs} == {}
