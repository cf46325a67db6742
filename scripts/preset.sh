#!/usr/bin/env bash
# Prints the preset for this machine: cuda where both nvcc and a GPU are found, else host. With --compiler, the GPU is
# not asked for. Exit status 0 either way.
set -euo pipefail
has_compiler() { command -v nvcc || [[ -x /usr/local/cuda/bin/nvcc ]]; }
has_gpu() { [[ -e /dev/nvidia0 ]] || nvidia-smi -L; }
if has_compiler >/dev/null && { [[ ${1:-} == --compiler ]] || has_gpu >/dev/null 2>&1; }; then
  echo cuda
else
  echo host
fi
