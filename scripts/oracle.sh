#!/usr/bin/env bash
# Compares a real model with transformers: runs tests/oracle/smollm2.py in a virtual environment, build/oracle-venv, with
# torch and transformers, which are not in Debian, and with the SmolLM2 of `attacca pull`. The first run downloads them.
# torch comes without CUDA, 200 MB, from download.pytorch.org; if that cannot be reached, from PyPI, which on x86-64 only
# has it with CUDA, 3 GB. Not part of `make test`. Fails if the comparison fails or skips itself.
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
"$venv/bin/python" tests/oracle/smollm2.py "$attacca"
