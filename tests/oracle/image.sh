#!/usr/bin/env bash
# Builds packaging/Containerfile and lets its image serve: image.sh [PORT]. It needs root, buildah and mmdebstrap, and asks no
# registry: mmdebstrap makes the base images from Debian's packages. Images and the compiler's cache stay in build/oracle-image.
set -euo pipefail
cd "$(dirname "$0")/../.."
port=${1:-8399}
here=$PWD/build/oracle-image
mkdir -p "$here/ccache"
export BUILDAH_ISOLATION=chroot
images=(buildah --root "$here/images" --runroot "$here/run" --storage-driver vfs)

if ! "${images[@]}" inspect --type image debian:12-slim >/dev/null 2>&1; then
  echo "image: making the base images"
  mmdebstrap --quiet --variant=minbase bookworm "$here/base.tar"
  base=$("${images[@]}" from scratch)
  "${images[@]}" add --quiet "$base" "$here/base.tar" / >/dev/null
  for name in debian:12 debian:12-slim; do "${images[@]}" commit --quiet "$base" "$name" >/dev/null; done
  "${images[@]}" rm "$base" >/dev/null
  rm "$here/base.tar"
fi

started=$SECONDS
"${images[@]}" build --pull-never --network host --volume "$here/ccache:/root/.cache/ccache" -t attacca -f packaging/Containerfile . \
  >"$here/build.log" 2>&1 || { tail -40 "$here/build.log"; exit 1; }
echo "image: built in $((SECONDS - started)) s"

container=$("${images[@]}" from --pull-never attacca)
trap '"${images[@]}" rm "$container" >/dev/null' EXIT
read -ra words < <("${images[@]}" inspect "$container" | python3 -c '
import json, sys
config = json.load(sys.stdin)["OCIv1"]["config"]
print(config["User"], *config["Entrypoint"], *config["Cmd"])')
"${images[@]}" run --network host "$container" -- "${words[@]:1}" --port "$port" >"$here/serve.log" 2>&1 & server=$!
trap 'kill "$server" || true; wait "$server" || true; "${images[@]}" rm "$container" >/dev/null' EXIT
answer=$(curl -sS --retry 50 --retry-connrefused --retry-max-time 60 "http://127.0.0.1:$port/v1/completions" \
  -d '{"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}') || { cat "$here/serve.log"; exit 1; }
echo "image: ${words[*]:1} as ${words[0]} answers $answer"
[[ $answer == *'"completion_tokens":8'* && ${words[0]} == nobody ]]
