#!/bin/sh
# run-sim.sh SIM_DIRECTORY PROGRAM [TEST…]: runs a conformance program on a new simulated device.
set -u
directory=$1
program=$2
shift 2
VIRGATE_SIM=${VIRGATE_SIM:-1}
VIRGATE_SIM_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/virgate-conformance.XXXXXX")
LD_LIBRARY_PATH=$directory${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export VIRGATE_SIM VIRGATE_SIM_DIR LD_LIBRARY_PATH
unset LD_PRELOAD CUDA_VISIBLE_DEVICES
trap 'rm -rf "$VIRGATE_SIM_DIR"' EXIT
trap 'exit 130' INT TERM
"$program" "$@"
