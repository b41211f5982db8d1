#!/bin/sh
# run-sim.sh BUILD PROGRAM [ARGUMENT...]: runs the program on a new simulated GPU.
set -u
build=$1
shift
VIRGATE_SIM_DIR=$(mktemp -d) || exit 1
trap 'rm -rf "$VIRGATE_SIM_DIR"' EXIT
export XDG_CACHE_HOME="$VIRGATE_SIM_DIR/cache"
export VIRGATE_SIM_DIR VIRGATE_SIM="${VIRGATE_SIM:-1}" VIRGATE_LIBDIR="$build"
# If the program was built with the address sanitizer, it also checks for leaks.
here=$(dirname "$0")
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=1"
export LSAN_OPTIONS="suppressions=$here/leaks.txt:print_suppressions=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$here/races.txt"
"$@"
