#!/usr/bin/env bash
# Makes a Python environment from scratch: venv.sh FOLDER REQUIREMENTS...
# It holds what the requirement files pin, and our own package, editable; without files it
# holds pip alone. What the packages of a file named *.no-deps.txt require is not installed
# with them.
# The index comes from pip's own configuration. Prints what it installs, step by step.
set -euo pipefail

folder=$1
shift
python=${PYTHON:-python3}

refuse() {
  printf 'venv.sh: %s\n' "$1" >&2
  exit 1
}

command -v "$python" >/dev/null ||
  refuse "$python is not there; install Python 3.11 or later, or name one: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  refuse "$("$python" --version) is too old; install Python 3.11 or later, or name one: make PYTHON=/path/to/python3"

say() { printf '%s: %s\n' "$folder" "$1"; }

say "creating a virtual environment with $("$python" --version)"
rm -rf "$folder"
if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  "$python" -m venv "$folder"
elif "$python" -m pip --version >/dev/null 2>&1; then
  # Debian ships venv without ensurepip. pip can still bring virtualenv,
  # which carries its own pip; it lies beside the environments, not in the
  # system's Python.
  bootstrap=$(dirname "$folder")/.virtualenv
  "$python" -m pip install --quiet --upgrade --target "$bootstrap" virtualenv==21.15.7
  PYTHONPATH=$bootstrap "$python" -m virtualenv --quiet "$folder"
else
  refuse "$python has neither ensurepip nor pip; install one (Debian: apt-get install python3-venv)"
fi

whole=() alone=()
for file in "$@"; do
  case $file in
  *.no-deps.txt) alone+=(--requirement "$file") ;;
  *) whole+=(--requirement "$file") ;;
  esac
done
install() {
  tools/progress.sh "$folder" "$folder/bin/python" -m pip install --progress-bar off --disable-pip-version-check "$@"
}
if [ $# -gt 0 ]; then
  say "installing $(sed -nE 's/^([A-Za-z0-9][^ ;#]*).*/\1/p' "$@" | paste -sd ' ')"
  install "${whole[@]}" --editable python
  [ ${#alone[@]} -eq 0 ] || install --no-deps "${alone[@]}"
fi
say "ready"
