#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (default 30s), one after
# another. An input that fails is kept under the package's testdata/fuzz, to be
# committed with the mend.
set -euo pipefail

go=${GO:-go}
cd "$(dirname "$0")/.."

targets=$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func /:/' | sort)
if [ -z "$targets" ]; then
  echo 'fuzz.sh: there is no fuzz target' >&2
  exit 1
fi
while IFS=: read -r file target; do
  folder=$(dirname "$file")
  echo "fuzz $folder $target"
  "$go" test -tags invariants -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 200x "$folder" </dev/null
done <<<"$targets"
