"""Puts the server's program into the wheel, if the environment names one; see `make wheels`.

PENSTOCK_WHEEL_PROGRAM is the program, and PENSTOCK_WHEEL_PLATFORM the platform it is for, as in a wheel's name. Without
them, the package has the client alone.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup  # isort: skip - it brings distutils
from distutils.command.build_scripts import build_scripts  # isort: skip

PROGRAM = os.environ.get("PENSTOCK_WHEEL_PROGRAM")
PLATFORM = os.environ.get("PENSTOCK_WHEEL_PLATFORM")


class CopyPrograms(build_scripts):
    """Copies scripts as they are. The class it replaces takes all for texts."""

    def run(self) -> None:
        """Copies them."""
        self.mkpath(self.build_dir)
        for script in self.scripts or []:
            copied = Path(self.build_dir, Path(script).name)
            shutil.copyfile(script, copied)
            copied.chmod(0o755)


if PROGRAM is None:
    setup()
else:
    setup(
        scripts=[os.path.relpath(PROGRAM)],  # from this folder, as it requires
        cmdclass={"build_scripts": CopyPrograms},
        options={"bdist_wheel": {"plat_name": PLATFORM, "python_tag": "py3"}},
    )
