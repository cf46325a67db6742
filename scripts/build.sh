#!/usr/bin/env bash
# Configures and builds one preset: build.sh <preset> <target>. Quiet: one line, and the log's end where it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 target=$2
log=build/logs/$preset.log
mkdir -p build/logs
started=$SECONDS
if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)"; } \
    >"$log" 2>&1; then
  grep -nE 'error|Error|FAILED' "$log" | head -20 || true
  tail -60 "$log"
  echo "build $preset: failed after $((SECONDS - started)) s, see $log"
  exit 1
fi
echo "build $preset: $((SECONDS - started)) s"
