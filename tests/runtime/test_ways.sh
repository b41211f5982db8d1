#!/bin/sh
# test_ways.sh VIRGATE DIRECTORY CUDA: runs the program of docs/runtime.md on the simulated GPU, in a vGPU. The program
# uses our shared or our static runtime library, and is also compiled by clang if that is installed. With NVIDIA's
# library it must fail, with a message that says what to do. CUDA is "none" if the programs were not built by nvcc.
set -u
virgate=$1 programs=$2 cuda=$3
passed=0 failed=0 skipped=0
place=$(mktemp -d /tmp/virgate-test-XXXXXX)
VIRGATE_RUNTIME_DIR=$place/run VIRGATE_STATE_DIR=$place/state VIRGATE_SIM_DIR=$place/sim
export VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR VIRGATE_SIM_DIR
unset VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML LD_PRELOAD
mkdir -m 700 "$place/run" "$place/state" "$place/sim"
trap '"$virgate" shutdown --sim >/dev/null 2>&1; rm -rf "$place"' EXIT

check() { # WHAT COMMAND…
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $what"
		cat "$place/out" "$place/err"
	fi
}
run() { "$virgate" run --sim --memory 1G -- "$@" >"$place/out" 2>"$place/err"; }
adds() {
	run "$1" && [ "$(cat "$place/out")" = "100000 elements, 0 wrong" ] && [ ! -s "$place/err" ]
}
refused() {
	run "$programs/vadd-nvidias"
	[ $? = 1 ] && grep -q '^cannot allocate memory: ' "$place/out" &&
		[ "$(grep -c "NVIDIA's CUDA runtime library" "$place/err")" = 1 ] &&
		grep -q '^virgate: vadd-nvidias contains .*nvcc -cudart shared' "$place/err"
}

if [ "$cuda" != none ]; then
	check "the shared library" adds "$programs/vadd-shared"
	check "the static library" adds "$programs/vadd-static"
	check "NVIDIA's static library" refused
	# A path to NVIDIA's library that the user has set does not matter.
	LD_LIBRARY_PATH=$cuda/lib64 check "the toolkit's directory" adds "$programs/vadd-shared"
else
	for what in "the shared library" "the static library" "NVIDIA's static library" "the toolkit's directory"; do
		echo "skip $what: needs nvcc"
		skipped=$((skipped + 1))
	done
fi
if [ -e "$programs/vadd-clang" ]; then
	check "by clang" adds "$programs/vadd-clang"
else
	echo "skip virgate-clang: no clang"
	skipped=$((skipped + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
