#!/usr/bin/env bash
# Debian packages the tests need; installs what is missing as root, and says what to install otherwise.
set -euo pipefail
declare -A needs=([tesseract]=tesseract-ocr [chromium]=chromium)
missing=()
for command in "${!needs[@]}"; do
  command -v "$command" >/dev/null || missing+=("${needs[$command]}")
done
# The layout model's OpenCV links to these two.
declare -A libraries=([libGL.so.1]=libgl1 [libgthread-2.0.so.0]=libglib2.0-0)
for library in "${!libraries[@]}"; do
  ldconfig -p | grep -q "$library" || missing+=("${libraries[$library]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "The tests need: ${missing[*]}. Install them, for example: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
