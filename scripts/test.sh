#!/usr/bin/env bash
# Builds and tests every preset that this machine can build: the sanitizers first, CUDA if there is nvcc, host last, so
# that the output ends with CTest's own summary. Prints one line per stage; the logs are in build/logs.
set -euo pipefail
cd "$(dirname "$0")/.."

# quiet_ctest <preset>: runs CTest into a log. If a test fails, shows the log without GoogleTest's lines about the cases
# that passed.
quiet_ctest() {
  echo "test $1: started"
  local log=build/logs/$1.ctest.log started=$SECONDS
  if ! ctest --preset "$1" --output-on-failure -j2 --no-tests=error >"$log" 2>&1; then
    grep -vE '^(\[ RUN      \]|\[       OK \]|\[----------\]|$)' "$log"
    echo "test $1: failed after $((SECONDS - started)) s, see $log"
    exit 1
  fi
  echo "test $1: $(grep -E 'tests passed' "$log"), $((SECONDS - started)) s"
  sed -n '/The following tests did not run/,$p' "$log"
  # Binaries that ran all their tests in one process name those that they skipped.
  sed -nE 's/^\[  SKIPPED \] ([^ ]+)$/\t\1 (Skipped)/p' "build/$1/Testing/Temporary/LastTest.log"
}

scripts/build.sh host-asan all
if build/host-asan/bin/attacca --version 2>&1 | grep -q 'LeakSanitizer has encountered a fatal error'; then
  echo "leak check: off, this machine refuses the ptrace it needs"
  export LSAN_OPTIONS=detect_leaks=0
fi
quiet_ctest host-asan
scripts/build.sh host-tsan all
quiet_ctest host-tsan
if [[ $(scripts/preset.sh --compiler) == cuda ]]; then
  scripts/build.sh cuda all -DATTACCA_BENCH=ON
  quiet_ctest cuda
else
  echo "build cuda: left out, no nvcc on the PATH or in /usr/local/cuda/bin"
fi
scripts/build.sh host all -DATTACCA_BENCH=ON
ctest --preset host --output-on-failure -j2 --no-tests=error
