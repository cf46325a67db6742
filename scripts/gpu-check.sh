#!/usr/bin/env bash
# Everything that needs a GPU: the gpu tests, the small ones again under compute-sanitizer, the benchmarks into
# bench/results/<gpu>, and the documentation made from them. Installs nothing. gpu-check.sh [PART]... [COMMIT]
# PART: build, test, memcheck, racecheck, synccheck, initcheck or bench; without any, all in this order.
# COMMIT: what the results are of, where this is a copy without its git history.
set -euo pipefail
cd "$(dirname "$0")/.."
# Under compute-sanitizer 2025.3 a kernel's changes to another node have no effect, so those tests are left out there.
unfit='-*updatable*:*Updatable*'
failed='' parts=() commit=''
fail() { echo "gpu-check: $*" >&2; exit 1; }
for word in "$@"; do
  case $word in
    build | test | memcheck | racecheck | synccheck | initcheck | bench) parts+=("$word") ;;
    *) [[ $word =~ ^[0-9a-f]{7,40}$ ]] || fail "'$word' is neither a part nor a commit; see the first lines of $0"
      commit=$word ;;
  esac
done
((${#parts[@]} > 0)) || parts=(build test memcheck racecheck synccheck initcheck bench)

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1) || true
[[ -n $gpu ]] || fail "no GPU here (nvidia-smi names none); run this on a machine with one"
[[ $(scripts/preset.sh --compiler) == cuda ]] || fail "no nvcc on the PATH or in /usr/local/cuda/bin"
slug=$(awk '{print tolower($NF)}' <<<"$gpu")
echo "gpu-check: $gpu"

run_tests() {
  ctest --preset cuda -L gpu --output-on-failure -j"$(($(nproc) * 3 / 4))" --no-tests=error
}

# sanitize <tool> <filter>: the tests that match, in every binary that has some. Nothing else may use the GPU meanwhile:
# then memcheck reports illegal accesses of graphs with conditionals that are not there without company.
sanitize() {
  local checked=0 binary sanitizer path
  sanitizer=$(command -v compute-sanitizer || true)
  for path in /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
    [[ -n $sanitizer || ! -x $path ]] || sanitizer=$path
  done
  [[ -n $sanitizer ]] || fail "no compute-sanitizer on the PATH or in /usr/local/cuda"
  for binary in build/cuda/tests/*_tests; do
    # A filtered list starts with the line of gtest_main; suites and tests follow.
    if "$binary" --gtest_list_tests --gtest_filter="$2" | grep '^  ' >/dev/null; then
      "$sanitizer" --tool "$1" --error-exitcode 1 "$binary" --gtest_filter="$2" --gtest_brief=1 || failed="$failed $1"
      checked=$((checked + 1))
    fi
  done
  ((checked > 0)) || fail "no test matches $2"
  echo "$1: $checked test binaries"
}

run_benchmarks() {
  local options=(--json-dir "bench/results/$slug" ${commit:+--commit "$commit"})
  build/cuda/bin/attacca bench all --device cuda:0 "${options[@]}" || failed="$failed bench"
  build/cuda/bin/attacca bench overhead-host-dispatch "${options[@]}" || failed="$failed bench"
  python3 scripts/tables.py
  python3 scripts/measurements.py
  python3 scripts/performance.py
  echo "results in bench/results/$slug"
}

for part in "${parts[@]}"; do
  started=$SECONDS
  case $part in
    build) scripts/build.sh cuda all ;;
    test) run_tests ;;
    memcheck) sanitize memcheck "*small*/cuda*:*Small*/cuda*:$unfit" ;;
    racecheck | synccheck) sanitize "$part" "*SmallDevice*/cuda*:*SmallModel*/cuda*:$unfit" ;;
    initcheck) sanitize initcheck "*SmallModel*/cuda*" ;;
    bench) run_benchmarks ;;
  esac
  echo "gpu-check: $part, $((SECONDS - started)) s"
done
[[ -z $failed ]] || fail "failed, see above:$failed"
