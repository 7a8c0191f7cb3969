#!/usr/bin/env bash
# Runs a command that takes long, and says every five seconds what it is doing, by the last
# line that it printed: progress.sh SUBJECT COMMAND... If the command fails, all that it
# printed follows.
set -euo pipefail

subject=$1
shift
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT

"$@" >"$printed" 2>&1 &
command=$!
trap 'kill "$command" 2>/dev/null; exit 130' INT TERM
for ((tenths = 1; ; tenths++)); do
  sleep 0.1
  kill -0 "$command" 2>/dev/null || break
  if ((tenths % 50 == 0)); then
    printf '%s: %d s, %d steps; %.90s\n' "$subject" "$SECONDS" "$(wc -l <"$printed")" "$(tail -n 1 "$printed")"
  fi
done
wait "$command" || {
  code=$?
  cat "$printed" >&2
  exit "$code"
}
