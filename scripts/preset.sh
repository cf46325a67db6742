#!/usr/bin/env bash
# Prints the preset for this machine: cuda if there are both nvcc and a GPU, else host. With --compiler, nvcc alone is
# enough for cuda. The exit status is 0 either way.
set -euo pipefail
has_compiler() { command -v nvcc || [[ -x /usr/local/cuda/bin/nvcc ]]; }
has_gpu() { [[ -e /dev/nvidia0 ]] || nvidia-smi -L; }
if has_compiler >/dev/null && { [[ ${1:-} == --compiler ]] || has_gpu >/dev/null 2>&1; }; then
  echo cuda
else
  echo host
fi
