#!/bin/sh
# run-sim.sh CORPUS PTX-FOLDER RECORD SIM-FOLDER [OPTION…]: compares on a simulated device of its own.
set -eu
node=$(mktemp -d)
trap 'rm -rf "$node"' EXIT
corpus=$1 ptx=$2 record=$3 sim=$4
shift 4
env LD_LIBRARY_PATH="$sim" VIRGATE_SIM=1 VIRGATE_SIM_DIR="$node" "$corpus" --ptx "$ptx" --compare "$record" --times "$@"
