#!/bin/sh
# turns.sh BUILD_OR_BUNDLE PART…: measures compute shares for docs/benchmarks.md, in parts of at most nine minutes.
# Needs a GPU and PyTorch. Native and MPS runs take 8 s, Virgate's runs 20 s (12 s with requests); each case runs three
# times.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
shift
torch() { python3 "$here/bench_turns_torch.py" "$root" --solo 1.2 --peer-seconds 8 --runs 3 "$@"; }

for part in "$@"; do
	case $part in
	pairs) torch --native --mps --seconds 20 train-30-70 graph-30-70 long-30-train-70 ;;
	mixes) torch --native --seconds 20 train-20-30-50 train-4x25 train-10-90 long-30-70 ;;
	loops)
		torch --memory 30G --native --mps --seconds 20 loop-50-50
		torch --memory 30G --seconds 20 loop-20-80
		;;
	latency)
		torch --native --mps --seconds 12 infer-40-train-60 infer-40-long-60 closed-20-train-80 half-30-train-70
		;;
	mps) torch --mode mps --mps --seconds 12 small-50-50 small-30-70 infer-40-train-60 ;;
	alone) # one vGPU with a compute share, first as the only vGPU, then beside idle vGPUs
		torch --seconds 12 small-50-alone limit-30-alone
		torch --native --seconds 12 change-30-70 small-30-70 small-50-alone
		;;
	busy) torch --busy --seconds 20 train-30-70 ;;
	handover) python3 "$here/bench_turns.py" "$root" --seconds 6 --native handover-50-50 ;;
	*) echo "turns.sh: no part $part, but: pairs mixes loops latency mps alone busy handover" >&2; exit 2 ;;
	esac
done
