#!/usr/bin/env bash
# Compares a real model with transformers: runs tests/oracle/smollm2.py in a virtual environment, build/oracle-venv, with
# torch and transformers, which are not in Debian, and SmolLM2 as `attacca pull` fetches it. The first time it downloads
# them: torch without CUDA, 200 MB, from download.pytorch.org; where that cannot be reached, from PyPI, which on x86-64 has
# it with CUDA only, 3 GB. No part of `make test`. Fails where the comparison fails, or skips itself.
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
