#!/bin/sh
# run-sim.sh CORPUS PTX-DIRECTORY RECORD SIM-DIRECTORY [OPTION…]: runs the corpus on a new simulated device, and
# compares the outputs with the record.
set -eu
node=$(mktemp -d)
trap 'rm -rf "$node"' EXIT
corpus=$1 ptx=$2 record=$3 sim=$4
shift 4
env LD_LIBRARY_PATH="$sim" VIRGATE_SIM=1 VIRGATE_SIM_DIR="$node" "$corpus" --ptx "$ptx" --compare "$record" --times "$@"
