#!/usr/bin/env bash
# Installs Chromium and its driver from the packages of Debian or Ubuntu, if they are missing.
set -euo pipefail

if command -v chromedriver >/dev/null && command -v chromium >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  printf 'chromium.sh: the tests of pages need chromium and chromedriver; install them (Debian: apt-get install chromium chromium-driver)\n' >&2
  exit 1
fi
printf 'chromium.sh: installing chromium and chromium-driver\n'
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null
