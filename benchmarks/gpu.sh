#!/usr/bin/env bash
# Feeds a GPU from T: benchmarks/gpu.py, with the arguments of this script. It downloads nothing.
#
#   make gpu                                         with the environment of this checkout, .venv/torch
#   PYTHON=python3 benchmarks/gpu.sh                 with another Python 3.11 or later
#   PYTHON=python3 benchmarks/gpu.sh --rows 1000000  with a smaller T
#
# A machine with a GPU needs these files of a checkout:
#
#   benchmarks/*.py, benchmarks/peers/*.py and benchmarks/gpu.sh
#   python/src/penstock
#   bin/penstock                                     of `make build`, for the platform of that machine
#
# and these packages: torch with CUDA, numpy, pyarrow, typing_extensions, and pyiceberg[sql-sqlite] with pyiceberg-core,
# which write T to .bench.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/torch/bin/python}
export PENSTOCK_BIN=${PENSTOCK_BIN:-$PWD/bin/penstock}
# The Python package starts receivers with the program `penstock` of the PATH.
PATH=$(cd "$(dirname "$PENSTOCK_BIN")" && pwd):$PATH
export PATH
export PYTHONPATH=$PWD/python/src:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}

if ! "$PENSTOCK_BIN" version >/dev/null; then
  echo "gpu.sh: $PENSTOCK_BIN does not run: build it with make build, or set PENSTOCK_BIN" >&2
  exit 2
fi
if ! "$python" -c 'import numpy, pyarrow, pyiceberg.catalog.sql, pyiceberg_core, torch, typing_extensions'; then
  echo "gpu.sh: $python lacks a package (above): set PYTHON to a Python that has all of them" >&2
  exit 2
fi
exec "$python" benchmarks/gpu.py "$@"
