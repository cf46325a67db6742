#!/usr/bin/env bash
# Runs everything that needs a GPU: the gpu tests, the small ones again under compute-sanitizer, and the benchmarks, with
# results in bench/results/<gpu>; then updates the documentation. Installs nothing. gpu-check.sh [PART]... [COMMIT]
# PART: build, test, memcheck, racecheck, synccheck, initcheck, ranks, bench, instruments, serve or soak; without any, all
# in this order. `ranks` compares a model over ranks that share the GPU with one rank: threads through graph edges and, where
# libnccl.so.2 is NCCL 2.30 or later, NCCL; processes through pinned memory and, where there are libnvshmem_host.so.3 and
# MPS, NVSHMEM. LD_LIBRARY_PATH says which libraries those are. serve and soak take four to five minutes each.
# COMMIT: the commit that the results belong to, for a copy without its git history.
# A part that fails does not stop the later ones, unless it is the build; the exit status tells at the end.
# scripts/checks.py writes the names of all tests that ran, and what ranks told, to bench/results/<gpu>/checks.json.
set -euo pipefail
cd "$(dirname "$0")/.."
# Under compute-sanitizer 2025.3 a kernel's changes to another node have no effect, so those tests are left out there.
unfit='-*updatable*:*Updatable*'
failed='' parts=() commit=''
fail() { echo "gpu-check: $*" >&2; exit 1; }
for word in "$@"; do
  case $word in
    build | test | memcheck | racecheck | synccheck | initcheck | ranks | bench | instruments | serve | soak)
      parts+=("$word") ;;
    *) [[ $word =~ ^[0-9a-f]{7,40}$ ]] || fail "'$word' is neither a part nor a commit; see the first lines of $0"
      commit=$word ;;
  esac
done
((${#parts[@]} > 0)) || parts=(build test memcheck racecheck synccheck initcheck ranks bench instruments serve soak)

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1) || true
[[ -n $gpu ]] || fail "no GPU here (nvidia-smi names none); run this on a machine with one"
[[ $(scripts/preset.sh --compiler) == cuda ]] || fail "no nvcc on the PATH or in /usr/local/cuda/bin"
slug=$(awk '{print tolower($NF)}' <<<"$gpu")
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
logs=build/gpu-check
echo "gpu-check: $gpu"

# record <section> <file or folder>: puts results into checks.json. Fails if a test failed or a tool found an error.
record() {
  python3 scripts/checks.py "$1" "$2" --gpu "$slug" --device "$gpu" --driver "$driver" ${commit:+--commit "$commit"}
}

run_tests() {
  local junit=$PWD/$logs/tests.xml status=0
  mkdir -p "$logs" && rm -f "$junit"
  ctest --preset cuda -L gpu --output-on-failure -j"$(($(nproc) * 3 / 4))" --no-tests=error --output-junit "$junit" ||
    status=1
  record tests "$junit" && return $status
}

# sanitize <tool> <filter>: runs the tests that match, in every binary that has some. Nothing else may use the GPU
# meanwhile: else memcheck reports illegal accesses of graphs with conditionals that do not exist.
sanitize() {
  local binary path log status=0 sanitizer options=()
  # Calls that CUDA refuses are no errors here: the library checks each call, and finds the end of a function's
  # parameters by such a refusal.
  [[ $1 != memcheck ]] || options=(--report-api-errors no)
  sanitizer=$(command -v compute-sanitizer || true)
  for path in /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
    [[ -n $sanitizer || ! -x $path ]] || sanitizer=$path
  done
  [[ -n $sanitizer ]] || { echo "gpu-check: no compute-sanitizer on the PATH or in /usr/local/cuda" >&2; return 1; }
  rm -rf "${logs:?}/$1" && mkdir -p "$logs/$1"
  for binary in build/cuda/tests/*_tests; do
    log=$logs/$1/$(basename "$binary")
    # A filtered list starts with the line of gtest_main; suites and their tests follow.
    "$binary" --gtest_list_tests --gtest_filter="$2" |
      awk '/^[^ ]+\.( |$)/ {suite = $1} /^  / {print suite $1}' >"$log.list" || status=1
    if [[ -s $log.list ]]; then
      "$sanitizer" --tool "$1" "${options[@]}" --error-exitcode 1 "$binary" --gtest_filter="$2" --gtest_brief=1 \
        --gtest_output="json:$log.json" 2>&1 | tee "$log.log" || status=1
    fi
  done
  record "$1" "$logs/$1" && return $status
}

run_benchmarks() {
  local options=(--json-dir "bench/results/$slug" ${commit:+--commit "$commit"}) status=0
  build/cuda/bin/attacca bench all --device cuda:0 "${options[@]}" || status=1
  build/cuda/bin/attacca bench overhead-host-dispatch "${options[@]}" || status=1
  build/cuda/bin/attacca bench overhead-host-update "${options[@]}" || status=1
  record_runs || status=1
  echo "results in bench/results/$slug"
  return $status
}

# Kernels that sit at known places under the roofs, trials that were predicted, traces of runs, and what traces cost; fails
# if one is not as expected. Takes less than two minutes, and needs the tests and the tool alone.
run_instruments() {
  local attacca=build/cuda/bin/attacca random=$logs/llama-1b.gguf status=0
  mkdir -p "$logs"
  [[ -f $random ]] || "$attacca" convert --random llama-1b -o "$random" || return 1
  build/cuda/tests/trace_tests --gtest_filter='*/cuda*' --gtest_brief=1 || status=1
  python3 scripts/instruments_record.py "$attacca" "$random" --out-dir "bench/results/$slug" --device "$gpu" \
    --driver "$driver" ${commit:+--commit "$commit"} || status=1
  "$attacca" bench trace --device cuda:0 --json-dir "bench/results/$slug" ${commit:+--commit "$commit"} || status=1
  return $status
}

# What attacca run gives with its defaults: a 1B shape, and SmolLM2 where `attacca pull smollm2` was called before.
record_runs() {
  local attacca=build/cuda/bin/attacca random=$logs/llama-1b.gguf models=()
  mkdir -p "$logs" && "$attacca" convert --random llama-1b -o "$random" --force || return 1
  [[ ! -f ${XDG_CACHE_HOME:-$HOME/.cache}/attacca/models/smollm2.gguf ]] || models+=(smollm2)
  python3 scripts/run_record.py "$attacca" "${models[@]}" "$random" --out "bench/results/$slug/run.json" \
    --device "$gpu" --driver "$driver" ${commit:+--commit "$commit"}
}

# tell <words>...: the greedy story of the embedded model, or why there is none. `launcher` starts processes.
launcher=()
tell() {
  timeout 60 "${launcher[@]}" build/cuda/bin/attacca run --plain "Once upon a time" --temperature 0 -n 40 --device cuda:0 "$@" 2>&1
}

# why_not <transport>: why it cannot be tried here; empty if it can.
why_not() {
  local says
  says=$(build/cuda/bin/attacca doctor | grep '^ranks')
  case $1 in
    nccl) grep -qE '^ranks NCCL +NCCL 2\.(3[0-9]|[4-9][0-9])' <<<"$says" || grep '^ranks NCCL' <<<"$says" ;;
    nvshmem) if ! grep -qE '^ranks SHMEM +NVSHMEM 3' <<<"$says"; then grep '^ranks SHMEM' <<<"$says"
      elif ! command -v nvidia-cuda-mps-control >/dev/null; then echo "no nvidia-cuda-mps-control"; fi ;;
  esac
}

# outcome <passed|failed|skipped> <check>: for checks.json.
outcome() {
  echo "$1 $2" >>"$logs/ranks"
  echo "ranks: $1: $2"
}

# rank_check <check> <command>...
rank_check() {
  local result=0
  "${@:2}" 2>&1 || result=$?
  case $result in
    0) outcome passed "$1" ;;
    77) outcome skipped "$1" ;;
    *) outcome failed "$1" ;;
  esac
}

# tells_the_story <option>...: whether ranks tell what one rank told, and end well.
tells_the_story() {
  local story
  story=$(tell "$@") || { echo "gpu-check: exit status $?: $story"; return 1; }
  [[ $story == "$one" ]] || { echo "gpu-check: not the story of one rank: $story"; return 1; }
}

# Ranks that share the GPU. NCCL puts several ranks on one GPU only if it is told to, and NVSHMEM only under MPS, with a part
# of the GPU for each.
run_ranks() {
  local one transport form why status=0
  export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 NCCL_GRAPH_MIXING_SUPPORT=0
  export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_DISABLE_NVLS=1
  mkdir -p "$logs" && rm -f "$logs/ranks"
  one=$(tell) || { echo "gpu-check: one rank: $one" >&2; return 1; }
  for transport in edges nccl staged nvshmem; do
    why=$(why_not $transport)
    [[ -z $why ]] || { outcome skipped "$transport"; echo "  $why"; continue; }
    case $transport in
      staged) launcher=(python3 tests/comm/launch.py 2) ;;
      nvshmem) launcher=(scripts/under_mps.sh 2) ;;
      *) launcher=() ;;
    esac
    rank_check "conformance, $transport" \
      "${launcher[@]}" timeout 60 build/cuda/tests/comm_transport $transport 2 --gtest_brief=1
    case $transport in
      edges | nccl) rank_check "conformance of four ranks, $transport" \
        timeout 90 build/cuda/tests/comm_transport $transport 4 --gtest_brief=1 ;;
    esac
    rank_check "two ranks tell the story of one, $transport" tells_the_story --ranks 2 --rank-transport "$transport"
  done
  if [[ -z $(why_not nvshmem) ]]; then
    rank_check "faults of processes" python3 tests/comm/gpu_faults_test.py build/cuda/tests/comm_process_fault
    for form in while-node self-relaunch; do
      rank_check "two resident loops tell the story of one rank, $form" \
        tells_the_story --ranks 2 --rank-transport nvshmem --scheduler resident --resident-loop $form
    done
  fi
  record ranks "$logs/ranks" || status=1
  # Ranks that share a GPU through NCCL may wait for each other for ever.
  local bench
  for bench in ranks-device ranks-decode; do
    timeout 300 build/cuda/bin/attacca bench $bench --device cuda:0 --json-dir "bench/results/$slug" \
      ${commit:+--commit "$commit"} || status=1
  done
  return $status
}

# record_server <figures or soak> <name of the result> [option]...
record_server() {
  python3 scripts/serve_record.py "$1" build/cuda/bin/attacca --out "bench/results/$slug/$2.json" --device "$gpu" \
    --driver "$driver" ${commit:+--commit "$commit"} "${@:3}"
}

# The server with an 8B shape, beside the engine in process.
run_server() {
  local random=$logs/llama-8b.gguf status=0
  mkdir -p "$logs"
  [[ -f $random ]] || build/cuda/bin/attacca convert --random llama-8b -o "$random" || return 1
  record_server figures serve --model "$random" || status=1
  rm -f "$random"
  return $status
}

run_part() {
  case $1 in
    build) scripts/build.sh cuda all -DATTACCA_BENCH=ON || fail "the build failed, so nothing was checked" ;;
    test) run_tests ;;
    memcheck) sanitize memcheck "*small*/cuda*:*Small*/cuda*:TraceOf*/cuda*:$unfit" ;;
    # Suites named SmallKernel... have a few launches of each kernel of a model that uses TMA, mbarriers or wgmma, for all
    # tools. docs/benchmarks.md says what these see of them. Under racecheck a model of two layers takes over two minutes.
    racecheck) sanitize racecheck "*SmallDevice*/cuda*:*SmallKernel*/cuda*:$unfit" ;;
    # synccheck takes every barrier in the body of a WHILE node for a divergent one, also without attacca.
    synccheck)
      sanitize synccheck \
        "*SmallDevice*/cuda*:*SmallKernel*/cuda*:*SmallModel*/cuda*:*SmallResident*relaunching*/cuda*:$unfit" ;;
    initcheck) sanitize initcheck "*SmallKernel*/cuda*:*SmallModel*/cuda*" ;;
    ranks) run_ranks ;;
    bench) run_benchmarks ;;
    instruments) run_instruments ;;
    serve) run_server ;;
    soak) record_server soak soak ;;
  esac
}

write_tables() {
  python3 scripts/tables.py && python3 scripts/measurements.py && python3 scripts/performance.py &&
    python3 scripts/chart.py && python3 scripts/checks.py page
}

for part in "${parts[@]}"; do
  started=$SECONDS
  run_part "$part" || failed="$failed $part"
  echo "gpu-check: $part, $((SECONDS - started)) s"
done
write_tables || failed="$failed tables"
[[ -z $failed ]] || fail "failed, see above:$failed"
