"""A Ray of this machine alone, which the tests of this folder share: pytest_plugins = ["local_ray"]."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator

import pytest
import ray

CPUS = 2
OBJECT_STORE = 200 << 20
# The first node of a `ray.cluster_utils.Cluster`, which runs no task and soon takes a silent node for lost.
HEAD = {
    "num_cpus": 0,
    "include_dashboard": False,
    "object_store_memory": OBJECT_STORE,
    "_system_config": {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 4,
    },
}


def prepare() -> None:
    """Makes Ray report nothing to its makers, and write no token into the user's folder."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """Ray with two CPUs, whose processes end with the session."""
    prepare()
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # whose path is short enough for a socket
        ray.init(
            address="local",
            num_cpus=CPUS,
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()
