#!/usr/bin/env bash
# Proofs that need PyPI, a browser or a real model; not part of `make test`. oracle.sh [PART]... Without PART all of them:
#   openai   OpenAI's own client drives every endpoint of `attacca serve`
#   load     locust and aiperf put load on it, with the tokenizer of the embedded model; aiperf alone takes minutes to install
#   page     headless Chromium, from Debian, opens its page and chats
#   trace    the classes of the package perfetto read a trace, and Chromium opens the pages of a trace and of a roofline
#   grammar  Python's jsonschema judges random answers that schemas allow
#   deploy   kubernetes-validate checks packaging/kubernetes.yaml against the schemas of Kubernetes
#   headers  the headers of NCCL and NVSHMEM, from their wheels (300 and 60 MB) where the system has none, declare what attacca
#            declares of them; needs the CUDA toolkit
#   image    buildah builds packaging/Containerfile, and its image serves; needs root, and takes ten minutes
#   smollm2  transformers computes the log-probabilities of the SmolLM2 of `attacca pull`
# They run in a virtual environment, build/oracle-venv, with packages from the index that pip is configured for. On x86-64 that
# of PyPI has torch only with CUDA, 3 GB. TORCH_INDEX may be the address of an index that has it without, 200 MB:
#   TORCH_INDEX=https://.../whl/cpu scripts/oracle.sh smollm2
# A part that fails or skips itself does not stop the others. The last lines say which parts passed, and the exit status whether
# all did.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
((${#parts[@]} > 0)) || parts=(openai load page trace grammar deploy headers image smollm2)
venv=build/oracle-venv
preset=$(scripts/preset.sh)
attacca=build/$preset/bin/attacca

# need <module>...: installs what the virtual environment does not have.
need() {
  [[ -x $venv/bin/python ]] || python3 -m venv "$venv"
  local module
  for module in "$@"; do
    "$venv/bin/python" -c "import $module" 2>/dev/null || "$venv/bin/pip" install --quiet "$module"
  done
}
need_torch() {
  need numpy
  "$venv/bin/python" -c 'import torch' 2>/dev/null ||
    "$venv/bin/pip" install --quiet ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
}
# Says what the part smollm2 is about to download, and how large that is.
say_downloads_of_smollm2() {
  local downloads=()
  "$attacca" pull --list | grep -q '^smollm2 .*not fetched' && downloads+=("the model (93 MB)")
  "$venv/bin/python" -c 'import torch' 2>/dev/null ||
    downloads+=("torch (with CUDA 3 GB; TORCH_INDEX may name an index that has it without, 200 MB)")
  "$venv/bin/python" -c 'import numpy, transformers' 2>/dev/null || downloads+=("numpy and transformers (45 MB)")
  if ((${#downloads[@]} == 0)); then
    echo "oracle: smollm2 has all it needs and downloads nothing"
  else
    printf 'oracle: smollm2 downloads %s\n' "${downloads[@]}"
  fi
}
# include_of <header> <wheel> <folder in it>: the option that finds the header; installs the wheel if the system has none.
include_of() {
  echo "#include <$1>" | g++ -E -isystem /usr/local/cuda/include -x c++ - >/dev/null 2>&1 && return
  [[ -x $venv/bin/python ]] || python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --no-deps "$2" >&2 &&
    echo "-isystem $("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/$3"
}
need_buildah() {
  command -v buildah >/dev/null || ((EUID != 0)) || apt-get install -y --no-install-recommends buildah crun mmdebstrap
}
need_chromium() {
  command -v chromedriver >/dev/null || ((EUID != 0)) || apt-get install -y --no-install-recommends chromium chromium-driver
}

run_part() {
  case $1 in
    openai) need openai jsonschema && "$venv/bin/python" tests/oracle/openai_client.py "$attacca" ;;
    load) need locust aiperf && "$venv/bin/python" tests/oracle/load_tools.py "$attacca" ;;
    page) need selenium && need_chromium && "$venv/bin/python" tests/oracle/page.py "$attacca" ;;
    trace)
      need selenium perfetto && need_chromium && "$venv/bin/python" tests/oracle/perfetto.py "$attacca" &&
        "$venv/bin/python" tests/oracle/trace_page.py "$attacca"
      ;;
    grammar)
      scripts/build.sh "$preset" grammar_tests && need jsonschema &&
        "$venv/bin/python" tests/oracle/grammar_jsonschema.py "build/$preset/tests/grammar_tests"
      ;;
    deploy)
      need kubernetes_validate && bash -n packaging/slurm.sh &&
        "$venv/bin/kubernetes-validate" --strict packaging/kubernetes.yaml
      ;;
    headers)
      local nccl nvshmem
      nccl=$(include_of nccl.h nvidia-nccl-cu13 nvidia/nccl/include) &&
        nvshmem=$(include_of nvshmem_host.h nvidia-nvshmem-cu13 nvidia/nvshmem/include) &&
        # shellcheck disable=SC2086
        g++ -std=c++20 -fsyntax-only -Isrc -Iinclude -isystem /usr/local/cuda/include $nccl $nvshmem tests/oracle/library_headers.cpp
      ;;
    image) need_buildah && tests/oracle/image.sh ;;
    smollm2)
      say_downloads_of_smollm2
      "$attacca" pull smollm2 && need_torch && need transformers &&
        "$venv/bin/python" tests/oracle/smollm2.py "$attacca"
      ;;
    *)
      echo "oracle: no part '$1'; see the first lines of $0" >&2
      return 2
      ;;
  esac
}

scripts/build.sh "$preset" attacca_cli
failed=0
results=()
for part in "${parts[@]}"; do
  if run_part "$part"; then
    results+=("$part passed")
  else
    results+=("$part failed")
    failed=1
  fi
done
printf 'oracle: %s\n' "${results[@]}"
exit $failed
