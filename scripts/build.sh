#!/usr/bin/env bash
# Configures and builds one preset: build.sh <preset> <target> [CMake's options]. On a terminal it shows the current step. The
# log is in build/logs; if the build fails, the end of the log is printed. The preset cuda gets the server where there is a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 target=$2 options=("${@:3}")
[[ $preset != cuda || $(scripts/preset.sh) != cuda ]] || options=(-DATTACCA_SERVE=ON "${options[@]}")
log=build/logs/$preset.log
mkdir -p build/logs
started=$SECONDS

show_progress() {
  if [[ -t 1 ]]; then
    awk -v name="$preset" '/^\[[0-9]+\/[0-9]+\]/ {printf "\rbuild %s: %s ", name, $1; fflush()} END {printf "\r\033[K"}'
  else
    echo "build $preset: started"
    cat >/dev/null
  fi
}

if ! { cmake --preset "$preset" "${options[@]}" &&
    cmake --build --preset "$preset" --target "$target" --parallel "$(nproc)"; } 2>&1 |
    tee "$log" | show_progress; then
  grep -nE 'error|Error|FAILED' "$log" | head -20 || true
  tail -60 "$log"
  echo "build $preset: failed after $((SECONDS - started)) s, see $log"
  exit 1
fi
echo "build $preset: $((SECONDS - started)) s"
