#!/usr/bin/env bash
# Runs every fuzz target of the module, or those whose names are given, one after another,
# for FUZZTIME each (such as 30s); without it for half an hour in all. An input that fails is
# kept under the package's testdata/fuzz, to be committed with the mend.
set -euo pipefail

go=${GO:-go}
cd "$(dirname "$0")/.."

targets=$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func /:/' | sort)
[ $# -eq 0 ] || targets=$(grep -E ":($(IFS='|' && echo "$*"))\$" <<<"$targets")
if [ -z "$targets" ]; then
  echo 'fuzz.sh: there is no fuzz target' >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
each=${FUZZTIME:-$((30 * 60 / $(wc -l <<<"$targets") + 1))s}
while IFS=: read -r file target; do
  folder=$(dirname "$file")
  echo "fuzz $folder $target for $each"
  if ! "$go" test -tags invariants -run '^$' -fuzz "^$target\$" -fuzztime "$each" -fuzzminimizetime 200x "$folder" </dev/null 2>&1 | tee "$log"; then
    # Go reports its own deadline as a failure when it ends in the middle of
    # something. A real failure comes with an input.
    if grep -q 'Failing input written' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
      exit 1
    fi
    echo "fuzz $folder $target: the time ended in the middle of an input"
  fi
done <<<"$targets"
