#!/bin/sh
# run-sim.sh BUILD PROGRAM [ARGUMENT...]: the program on a simulated GPU of its own.
set -u
build=$1
shift
VIRGATE_SIM_DIR=$(mktemp -d) || exit 1
trap 'rm -rf "$VIRGATE_SIM_DIR"' EXIT
export XDG_CACHE_HOME="$VIRGATE_SIM_DIR/cache"
export VIRGATE_SIM_DIR VIRGATE_SIM="${VIRGATE_SIM:-1}" VIRGATE_LIBDIR="$build"
"$@"
