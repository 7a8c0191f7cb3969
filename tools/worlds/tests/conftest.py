"""Where the tests find the programs that they test, and Spark for those that ask for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark itself, which takes long to start."""
    from spark_session import start

    spark = start(tmp_path_factory.mktemp("spark"))
    yield spark
    spark.stop()


@pytest.fixture
def spark(jvm: Any, tmp_path: Path) -> Any:
    """A session of Spark whose catalog "default" lies in the test's folder."""
    from spark_session import attach

    session = jvm.newSession()
    attach(session, tmp_path, "default")
    session.sql("CREATE NAMESPACE default.ml")
    return session
