#!/bin/sh
# Replaces nvidia-cuda-mps-control -f: creates the files that clients look for, and runs until SIGTERM. Files beside it
# control it: with `fails` it exits at once, with `deaf` it creates no control file, with `slow` it waits until the test
# removes `slow`, with `stubborn` it ignores SIGTERM. It appends a line to `said` at each start.
here=$(dirname "$(readlink -f "$0")")
[ "$*" = -f ] || { echo "usage: $0 -f" >&2; exit 2; }
echo "$$ $(id -u) $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY ${LD_PRELOAD:-none}" \
	>>"$here/said"
[ ! -e "$here/fails" ] || exit 1
echo "control of MPS stand-in $$" >"$CUDA_MPS_LOG_DIRECTORY/control.log"
trap 'rm -f "$CUDA_MPS_PIPE_DIRECTORY/control"; exit 0' TERM
[ ! -e "$here/stubborn" ] || trap '' TERM
while [ -e "$here/slow" ]; do
	sleep 0.1
done
if [ ! -e "$here/deaf" ]; then
	rm -f "$CUDA_MPS_PIPE_DIRECTORY/control"
	mkfifo "$CUDA_MPS_PIPE_DIRECTORY/control"
fi
while [ -d "$CUDA_MPS_PIPE_DIRECTORY" ]; do # run until the test removes the directory
	sleep 1 &
	wait $!
done
