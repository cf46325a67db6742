#!/usr/bin/env bash
# Proofs that need what is not in Debian: runs tests/oracle/*.py in a virtual environment, build/oracle-venv, with torch and
# transformers, and SmolLM2 as `attacca pull` fetches it. The first time it downloads them: torch without CUDA, 200 MB,
# from download.pytorch.org; where that cannot be reached from PyPI, which on x86-64 has it with CUDA only, 3 GB.
# No part of `make test`. Fails where one of them fails, or skips itself.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/oracle-venv
if [[ ! -e $venv/installed ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --retries 1 --timeout 20 --index-url https://download.pytorch.org/whl/cpu torch ||
    "$venv/bin/pip" install --quiet torch
  "$venv/bin/pip" install --quiet numpy transformers
  touch "$venv/installed"
fi
preset=$(scripts/preset.sh)
scripts/build.sh "$preset" attacca_cli
attacca=build/$preset/bin/attacca
"$attacca" pull smollm2
failed=''
for oracle in tests/oracle/*.py; do
  "$venv/bin/python" "$oracle" "$attacca" || failed="$failed $oracle"
done
[[ -z $failed ]] || { echo "oracle: failed or skipped:$failed" >&2; exit 1; }
