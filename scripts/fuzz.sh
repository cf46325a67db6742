#!/usr/bin/env bash
# Lets libFuzzer search for inputs that break a parser; the help below has the usage.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/fuzz

targets() { for source in tests/fuzz/*_fuzz.cpp; do basename "$source" _fuzz.cpp; done; }
fail() { echo "fuzz: $*" >&2; exit 1; }

if (($# < 1 || $# > 2)) || [[ $1 == -* ]]; then
  cat <<END
scripts/fuzz.sh TARGET [SECONDS]

Builds a fuzz target with clang++, libFuzzer and the address and undefined-behaviour sanitizers into $build, and runs
it for SECONDS (60). What it found worth keeping stays in $build/corpus/TARGET, where the next run begins. An input
that breaks something is left in $build/found; give it to $build/tests/TARGET_fuzz to see it again.

Targets: $(targets | paste -sd ' ')
END
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit 0
  exit 2
fi
target=$1 seconds=${2:-60}
[[ -f tests/fuzz/${target}_fuzz.cpp ]] || fail "no target '$target'; there are $(targets | paste -sd ' ')"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "SECONDS is '$seconds'; a whole number from 1 on is expected"
command -v clang++ >/dev/null || fail "no clang++ on the PATH; install what Debian calls clang"
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
  clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null ||
  fail "this clang++ cannot link -fsanitize=fuzzer; install what Debian calls libclang-rt-$(clang++ -dumpversion |
    cut -d. -f1)-dev"

# -w: clang's warnings do not matter, because other compilers build attacca.
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -w" -DATTACCA_SANITIZE=fuzzer-no-link,address,undefined \
  -DATTACCA_BENCH=OFF -DATTACCA_EXAMPLES=OFF >/dev/null
cmake --build "$build" --target "${target}_fuzz"
python3 tests/fuzz/make_seeds.py "$build/seeds"
mkdir -p "$build/corpus/$target" "$build/found"
exec "$build/tests/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512 \
  -max_len=16384 -print_final_stats=1 -artifact_prefix="$build/found/$target-" "$build/corpus/$target" "$build/seeds/$target"
