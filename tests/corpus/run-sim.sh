#!/bin/sh
# run-sim.sh CORPUS PTX-FOLDER RECORD SIM-FOLDER: compares on a simulated device of its own.
set -eu
node=$(mktemp -d)
trap 'rm -rf "$node"' EXIT
env LD_LIBRARY_PATH="$4" VIRGATE_SIM=1 VIRGATE_SIM_DIR="$node" "$1" --ptx "$2" --compare "$3" --times
