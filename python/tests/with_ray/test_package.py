"""The package penstock.ray, with Ray and without it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import ray

pytest_plugins = ["local_ray"]

CODE = "import sys; sys.modules['ray'] = None; import penstock.ray"


def test_without_ray_it_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False
    )
    assert "penstock.ray needs Ray: pip install 'penstock[ray]'" in done.stderr


@pytest.mark.usefixtures("local_ray")
def test_ray_runs_tasks() -> None:
    assert ray.get(ray.remote(lambda: 6 * 7).remote()) == 42


def test_actors_do_without_ray_data() -> None:
    """Which takes as long to import as all else that they need."""
    code = "import sys, penstock.ray.transforms_actor; sys.exit('ray.data' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
