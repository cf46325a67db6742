#!/usr/bin/env bash
# Installs the Debian packages that the build needs, if CMake does not find them elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ cmake ninja-build ccache python3 libtbb-dev libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev
  librapidcheck-dev relacy-dev libhwy-dev libpcre2-dev libutf8proc-dev libyaml-cpp-dev libboost1.81-dev libssl-dev
  prometheus-cpp-dev libopenmpi-dev)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "deps: no apt-get here; attacca needs what Debian calls ${packages[*]}"
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "deps: all ${#packages[@]} packages are installed"
  exit 0
fi

# A package may be there under another name or prefix, so the test is whether CMake can configure. Without relacy it can,
# and leaves those tests out; without yaml-cpp it can, and leaves --config out; without Boost, OpenSSL or prometheus-cpp
# it can, and leaves attacca serve out; without MPI it can, and leaves ranks as processes out.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
must=1
if cmake -S . -B "$probe" -G Ninja >/dev/null 2>&1; then
  found=("${missing[@]}") missing=() must=0
  ! grep -q '^RELACY_INCLUDE_DIR:.*NOTFOUND$' "$probe/CMakeCache.txt" || missing+=(relacy-dev)
  ! grep -q '^yaml-cpp_DIR:.*NOTFOUND$' "$probe/CMakeCache.txt" || missing+=(libyaml-cpp-dev)
  ! grep -q '^ATTACCA_BOOST_INCLUDE_DIR:.*NOTFOUND$' "$probe/CMakeCache.txt" || missing+=(libboost1.81-dev)
  grep -q '^OPENSSL_INCLUDE_DIR:PATH=/' "$probe/CMakeCache.txt" || missing+=(libssl-dev)
  ! grep -q '^prometheus-cpp_DIR:.*NOTFOUND$' "$probe/CMakeCache.txt" || missing+=(prometheus-cpp-dev)
  ! grep -q '^MPI_CXX_COMPILER:.*NOTFOUND$' "$probe/CMakeCache.txt" || missing+=(libopenmpi-dev)
  if ((${#missing[@]} == 0)); then
    echo "deps: not from Debian, but found: ${found[*]}"
    exit 0
  fi
fi
install="apt-get install -y --no-install-recommends ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  if ! sudo -n true 2>/dev/null; then
    echo "deps: missing ${missing[*]}; run: sudo apt-get update && sudo $install"
    exit "$must"
  fi
  as_root=(sudo -n)
fi
echo "deps: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && $install" >/dev/null ||
  { echo "deps: could not install; run as root: apt-get update && $install"; exit "$must"; }
