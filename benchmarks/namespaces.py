"""Network namespaces, which only root makes (Linux)."""

from __future__ import annotations

import os
import subprocess


def ip(*arguments: str) -> None:
    """Runs the command ip."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def inside(name: str) -> list[str]:
    """The prefix of a command that is to run in a namespace."""
    return ["ip", "netns", "exec", name]


def delete(name: str) -> None:
    """Deletes a namespace, if there is one."""
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def possible() -> str:
    """Why there can be no namespaces here; "" if there can be some."""
    if os.getuid() != 0:
        return "only root makes network namespaces"
    try:
        ip("netns", "list")
    except (OSError, subprocess.CalledProcessError):
        return "there is no ip"
    return ""
