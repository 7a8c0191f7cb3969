#!/usr/bin/env bash
# Builds the release before this one, for tests that use both: its program and its Python package, in .bin/release-before/COMMIT.
# tools/release-before.txt has its tag, or a commit until there is one. Prints the folder. Ends with status 3 if the history does
# not have the commit, as in a shallow clone.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
named=$(<"$root/tools/release-before.txt")
commit=$(git -C "$root" rev-parse --verify --quiet "$named^{commit}") || {
  echo "this clone does not have $named, the release before this one: fetch the whole history" >&2
  exit 3
}
out=$root/.bin/release-before/$commit
if [ ! -d "$out" ]; then
  mkdir -p "$root/.bin/release-before"
  made=$(mktemp -d "$root/.bin/release-before/new.XXXXXX")
  trap 'rm -rf "$made"' EXIT
  mkdir "$made/source"
  git -C "$root" archive "$commit" | tar x -C "$made/source"
  (cd "$made/source" && GOWORK=off "${GO:-go}" build -o "$made/penstock" ./cmd/penstock) >&2
  mkdir "$made/package"
  cp -r "$made/source/python/src/penstock" "$made/package/"
  rm -rf "$made/source"
  mv -T "$made" "$out"
  trap - EXIT
fi
echo "$out"
