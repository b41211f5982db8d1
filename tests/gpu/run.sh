#!/bin/sh
# run.sh BUILD_OR_BUNDLE [PART…]: runs the suite for a machine with an NVIDIA GPU in a few minutes: the driver's
# behaviour (conformance), natively and inside a vGPU, then programs inside vGPUs. Prints the counts of all parts at the
# end; exits with 77 without a GPU. Uses its own daemon, and does not touch the user's vGPUs and settings. Checkpoints
# need CRIU, as $VIRGATE_CRIU or in PATH.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${1:-build}" && pwd) || exit 2
if [ -x "$root/bin/virgate" ]; then
	virgate=$root/bin/virgate conformance=$root/libexec/virgate/tests/conformance
elif [ -x "$root/cli/virgate" ]; then
	virgate=$root/cli/virgate conformance=$root/tests/conformance
else
	echo "run.sh: $root is neither a build nor a bundle of Virgate" >&2
	exit 2
fi
[ $# -eq 0 ] || shift
parts="conformance conformance-inside core core-inside vram vram-inside share share-inside space
compute operation manager sharing broker examples runtime turns turns_mps eviction eviction_switch
processes routes loopholes frameworks checkpoint"
by_name="manager-stress frameworks-contended frameworks-evictable numba multi" # take minutes, and run only if named
for part in "$@"; do
	# shellcheck disable=SC2086
	printf '%s\n' $parts $by_name | grep -qxF -e "$part" && continue
	echo "run.sh: there is no part $part, but: $parts $by_name" >&2
	exit 2
done
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $parts
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "this machine has no NVIDIA GPU: nothing was tested"
	exit 77
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/virgate-gpu.XXXXXX")
mkdir -m 700 "$work/run" "$work/state"
VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state VIRGATE_ROOT=$root
export VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR VIRGATE_ROOT
unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML
trap '"$virgate" shutdown >/dev/null 2>&1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

passed=0 failed=0 skipped=0
add() { passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5)); }
run() { # NAME SECONDS COMMAND…
	name=$1 seconds=$2
	shift 2
	echo "=== $name"
	timeout -k 5 "$seconds" "$@" >"$work/output" 2>&1
	status=$?
	cat "$work/output"
	counts=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$work/output" | tail -n 1)
	if [ -n "$counts" ]; then
		# shellcheck disable=SC2086
		add $counts
	else
		echo "FAIL $name: ended with status $status before it had counted"
		failed=$((failed + 1))
	fi
}

start=$(date +%s)
"$virgate" --version
for part in "$@"; do
	case $part in
	conformance) run "$part" 110 "$here/../conformance/run-gpu.sh" "$conformance" ;;
	conformance-inside) run "$part" 110 env INSIDE="$virgate" "$here/../conformance/run-gpu.sh" "$conformance" ;;
	core) run "$part" 140 "$here/../core/run-gpu.sh" "$root" ;;
	core-inside) run "$part" 140 env INSIDE="$virgate" "$here/../core/run-gpu.sh" "$root" ;;
	vram) run "$part" 110 env ROOM=vram "$here/../core/run-gpu.sh" "$root" ;;
	vram-inside) run "$part" 110 env ROOM=vram INSIDE="$virgate" "$here/../core/run-gpu.sh" "$root" ;;
	share) run "$part" 110 env ROOM=share "$here/../core/run-gpu.sh" "$root" ;;
	share-inside) run "$part" 110 env ROOM=share INSIDE="$virgate" "$here/../core/run-gpu.sh" "$root" ;;
	manager-stress) # calls all functions from 512 threads for a minute
		run "$part" 140 env VIRGATE_STRESS_SECONDS=60 LIMIT=130 ROOM=manager \
			"$here/../operation/wheels.sh" "$here/../core/run-gpu.sh" "$root" stress
		;;
	space | compute | operation | manager)
		run "$part" 110 env ROOM="$part" "$here/../operation/wheels.sh" "$here/../core/run-gpu.sh" "$root" ;;
	examples) run "$part" 110 "$here/../examples/run-gpu.sh" "$root" ;;
	runtime) run "$part" 280 "$here/../runtime/run-gpu.sh" "$root" ;;
	checkpoint) # CASES="train graph" selects cases; LARGE is the size of the case large, in MiB
		# shellcheck disable=SC2086
		run "$part" 280 python3 "$here/checkpoint.py" "$root" ${CASES:-} ;;
	eviction) # CASES="cycles" selects cases; CYCLES is the number of suspensions of the case cycles
		# shellcheck disable=SC2086
		run "$part" 420 python3 "$here/$part.py" "$root" ${CASES:-} ;;
	turns) # COUNT is the number of programs that are killed, and of those that are stopped
		run "$part" $((190 + 2 * ${COUNT:-0})) python3 "$here/turns.py" "$root" ;;
	sharing | broker | turns_mps | eviction_switch) run "$part" 190 python3 "$here/$part.py" "$root" ;;
	multi) # needs two GPUs; CASES="50 torchrun" selects cases by words of their names
		# shellcheck disable=SC2086
		run "$part" 580 python3 "$here/multi.py" "$root" ${CASES:-} ;;
	numba) run "$part" 290 python3 "$here/numba_programs.py" "$root" ;;
	frameworks-contended | frameworks-evictable)
		run "$part" 290 python3 "$here/frameworks.py" "$root" "${part#frameworks-}" ;;
	processes | routes | loopholes | frameworks) run "$part" 150 python3 "$here/$part.py" "$root" ;;
	esac
done
echo "$(($(date +%s) - start)) seconds"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
