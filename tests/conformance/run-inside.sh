#!/bin/sh
# run-inside.sh BUILD PROGRAM [TEST…]: runs a conformance program inside a vGPU of a simulated device, with its own
# daemon. The driver must behave in the same way there. INSIDE_OPTIONS: further options of `virgate run`.
set -u
build=$1
program=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/var/tmp}/virgate-inside.XXXXXX")
mkdir -m 700 "$work/run" "$work/state" "$work/sim"
VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state VIRGATE_SIM_DIR=$work/sim VIRGATE_SIM=${VIRGATE_SIM:-1}
export VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR VIRGATE_SIM_DIR VIRGATE_SIM
unset LD_PRELOAD CUDA_VISIBLE_DEVICES VIRGATE_DRIVER VIRGATE_NVML
trap '"$build/cli/virgate" shutdown --sim >/dev/null 2>&1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$build/cli/virgate" run --sim --memory 7G ${INSIDE_OPTIONS:-} -- "$program" "$@"
