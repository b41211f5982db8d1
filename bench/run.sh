#!/bin/sh
# run.sh [BUILD_OR_BUNDLE]: the benchmarks. The simulator's and the interposer's run everywhere, the
# object model's, device memory's and sharing's on the GPU or, where there is none, on the simulated driver, as its
# first line says; what virgate run costs beside native, and a dump beside the plain way, need an NVIDIA GPU (and CRIU),
# and say so where there is none. With RESULTS=DIRECTORY each writes its figures to DIRECTORY/NAME.json too. Fails if a limit
# is missed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${1:-build}" && pwd) || exit 2
if [ -x "$root/bin/virgate" ]; then
	programs=$root/libexec/virgate/bench libraries=$root/lib/virgate
else
	programs=$root/bench libraries=$root
fi
failed=0 ran=0 results=${RESULTS:-}
[ -z "$results" ] || mkdir -p "$results" || exit 2
for program in "$programs"/bench_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	echo "=== $name"
	simulated=
	case $name in bench_compute | bench_core | bench_operation | bench_share | bench_space | bench_vram) ls /dev/nvidia[0-9]* >/dev/null 2>&1 || simulated=1 ;; esac
	find=
	case $name in bench_operation) find=$here/../tests/operation/wheels.sh ;; esac
	${simulated:+env VIRGATE_SIM=1 "VIRGATE_LIBDIR=$libraries"} ${find:+"$find"} "$program" \
		${results:+--json "$results/$name.json"}
	case $? in 0) ;; 77) continue ;; *) failed=1 ;; esac
	ran=$((ran + 1))
done
if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	work=$(mktemp -d "${TMPDIR:-/tmp}/virgate-bench.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
	mkdir -m 700 "$work/run" "$work/state"
	echo "=== gpu_overhead"
	VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state python3 "$here/gpu_overhead.py" "$root" \
		${results:+--json "$results/gpu_overhead.json"} || failed=1
	ran=$((ran + 1))
	echo "=== gpu_checkpoint"
	VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state python3 "$here/gpu_checkpoint.py" "$root" --sizes 1,8 \
		${results:+--json "$results/gpu_checkpoint.json"}
	case $? in 0) ran=$((ran + 1)) ;; 77) ;; *) failed=1 ;; esac
else
	echo "no NVIDIA GPU on this machine: what virgate run costs there was not measured"
fi
[ "$ran" -gt 0 ] && [ "$failed" -eq 0 ]
