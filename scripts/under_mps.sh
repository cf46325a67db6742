#!/usr/bin/env bash
# Starts processes that share a GPU under MPS, with an even part of it each, as ranks that TCP joins:
# under_mps.sh COUNT PROGRAM [ARGUMENT]... Where there is no MPS, as on a machine without a GPU, it starts them plainly.
set -euo pipefail
here=$(dirname "$(realpath "$0")")/.. count=$1
if command -v nvidia-cuda-mps-control >/dev/null; then
  CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d)
  export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY=$CUDA_MPS_PIPE_DIRECTORY
  export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$((100 / count))
  nvidia-cuda-mps-control -d >/dev/null
  trap 'echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null; rm -rf "$CUDA_MPS_PIPE_DIRECTORY"' EXIT
fi
python3 "$here/tests/comm/launch.py" "$@"
