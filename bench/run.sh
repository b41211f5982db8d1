#!/bin/sh
# run.sh [BUILD_OR_BUNDLE]: runs the benchmarks. Those of the simulator and the interposer run on every machine. Those
# of the object model, device memory and publications run on the GPU, or on the simulated driver if the machine has no
# GPU; their first line names the device. gpu_overhead and gpu_checkpoint need an NVIDIA GPU, the latter also CRIU;
# without them they are skipped with a message. With RESULTS=DIRECTORY, each benchmark also writes its figures to
# DIRECTORY/NAME.json. Fails if a figure misses its limit.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${1:-build}" && pwd) || exit 2
if [ -x "$root/bin/virgate" ]; then
	programs=$root/libexec/virgate/bench libraries=$root/lib/virgate
else
	programs=$root/bench libraries=$root
fi
failed=0 ran=0 results=${RESULTS:-}
has_gpu() { ls /dev/nvidia[0-9]* >/dev/null 2>&1; }
[ -z "$results" ] || mkdir -p "$results" || exit 2
for program in "$programs"/bench_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	echo "=== $name"
	simulated=
	case $name in
	bench_compute | bench_core | bench_operation | bench_share | bench_space | bench_vram) has_gpu || simulated=1 ;;
	esac
	find=
	case $name in bench_operation) find=$here/../tests/operation/wheels.sh ;; esac
	${simulated:+env VIRGATE_SIM=1 "VIRGATE_LIBDIR=$libraries"} ${find:+"$find"} "$program" \
		${results:+--json "$results/$name.json"}
	case $? in 0) ;; 77) continue ;; *) failed=1 ;; esac
	ran=$((ran + 1))
done
if has_gpu; then
	work=$(mktemp -d "${TMPDIR:-/tmp}/virgate-bench.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
	mkdir -m 700 "$work/run" "$work/state"
	echo "=== gpu_overhead"
	VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state python3 "$here/gpu_overhead.py" "$root" \
		${results:+--json "$results/gpu_overhead.json"} || failed=1
	ran=$((ran + 1))
	echo "=== gpu_checkpoint"
	VIRGATE_RUNTIME_DIR=$work/run VIRGATE_STATE_DIR=$work/state python3 "$here/gpu_checkpoint.py" "$root" \
		--sizes 1,8 ${results:+--json "$results/gpu_checkpoint.json"}
	case $? in 0) ran=$((ran + 1)) ;; 77) ;; *) failed=1 ;; esac
else
	echo "no NVIDIA GPU on this machine: what virgate run costs there was not measured"
fi
[ "$ran" -gt 0 ] && [ "$failed" -eq 0 ]
