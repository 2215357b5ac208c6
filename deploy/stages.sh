#!/bin/sh
# The stages of the image, each a function. The Dockerfile runs them in its layers; tests/deploy runs the same lines in
# a root of its own, so that they are tried where no Docker is.
#
#   stages.sh build SOURCE TARGET   what serving needs, into an environment at TARGET
#   stages.sh prepare               the user and the directories, in the root that is run
set -eu

build() {
  source=$1 target=$2
  python3 -m venv "$target"
  "$target/bin/python" -m pip install -qq --disable-pip-version-check --no-cache-dir --require-hashes \
    -r "$source/constraints.txt" -r "$source/constraints-build.txt"
  "$target/bin/python" -m pip install -qq --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation "$source"
  # What builds the wheel is not needed to run it.
  sed -nE 's/^([a-z0-9.-]+)==.*/\1/p' "$source/constraints-build.txt" |
    xargs "$target/bin/python" -m pip uninstall -qq --disable-pip-version-check --yes
  cp "$source/deploy/probe.py" "$target/probe.py"
}

prepare() {
  groupadd --system --gid 10001 tallystick
  useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/tallystick --shell /usr/sbin/nologin tallystick
  install -d -o 10001 -g 10001 -m 0700 /var/lib/tallystick
}

"$@"
