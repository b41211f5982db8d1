#!/bin/sh
# run-sim.sh BUILD SCRIPT [WORD…]: runs a script of the GPU suite on DEVICES (1) simulated GPUs, with its own daemon.
set -u
build=$1
script=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/var/tmp}/virgate-gpu-sim.XXXXXX")
mkdir -m 700 "$work/run" "$work/state" "$work/sim"
VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state VIRGATE_SIM_DIR=$work/sim VIRGATE_ROOT=$build
VIRGATE_SIM=memory=8G,ctx=16M,devices=${DEVICES:-1} VIRGATE_NVML=$build/sim/libnvidia-ml.so.1 LD_LIBRARY_PATH=$build/sim
export VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR VIRGATE_SIM_DIR VIRGATE_ROOT VIRGATE_SIM VIRGATE_NVML LD_LIBRARY_PATH
unset LD_PRELOAD CUDA_VISIBLE_DEVICES VIRGATE_DRIVER
trap '"$build/cli/virgate" shutdown --sim >/dev/null 2>&1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
python3 "$(dirname "$0")/$script" "$build" "$@"
