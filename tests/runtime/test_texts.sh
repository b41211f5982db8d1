#!/bin/sh
# test_texts.sh PROGRAM OURS CUDA: checks that the names and texts of errors in our library are the same as in the
# toolkit's library of CUDA 13.0.
set -u
program=$1 ours=$2 cuda=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! [ -e "$cuda/lib64/libcudart.so.13" ] ||
	! grep -q '^#define CUDART_VERSION *13000$' "$cuda/include/cuda_runtime_api.h"; then
	echo "skip texts: no libcudart.so.13 of CUDA 13.0 (toolkit: $cuda)"
	exit 77
fi
LD_LIBRARY_PATH=$ours "$program" >"$work/ours" || exit 1
LD_LIBRARY_PATH=$cuda/lib64 "$program" >"$work/theirs" || exit 1
if diff "$work/theirs" "$work/ours"; then
	echo "1 passed, 0 failed, 0 skipped"
else
	echo "FAIL the texts of our library (>) are not those of the toolkit's"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
