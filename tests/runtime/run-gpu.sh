#!/bin/sh
# run-gpu.sh PROGRAMS OURS [NVIDIAS [SIMULATED]]: runs the programs runtime_* of the directory PROGRAMS on this GPU
# with the libcudart.so.13 of the directory OURS, with that of NVIDIAS (default: /usr/local/cuda/lib64), and on the
# simulated GPU of the directory SIMULATED if it is given. Prints the tests whose results are not the same.
set -u
programs=$1 ours=$2 nvidias=${3:-/usr/local/cuda/lib64} simulated=${4:-}
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "run-gpu.sh: no NVIDIA GPU on this machine" >&2
	exit 77
fi
[ -e "$nvidias/libcudart.so.13" ] || { echo "run-gpu.sh: no libcudart.so.13 in $nvidias" >&2; exit 77; }
unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# run NAME LIBRARIES: the results of all programs, in $work/NAME.
run() {
	for program in "$programs"/runtime_*; do
		[ -f "$program" ] && [ -x "$program" ] || continue
		echo "== $(basename "$program")"
		LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -k 5 120 "$program" 2>&1
		echo "exit status $?"
	done >"$work/$1"
	sed -n 's/^\(ok\|FAIL\|skip\) /&/p; /^==/p; /^exit status/p' "$work/$1" >"$work/$1.results"
	echo "$1: $(grep -c '^ok' "$work/$1") passed, $(grep -c '^FAIL' "$work/$1") failed," \
		"$(sed -n 's/^# \([0-9]*\) assertions$/\1/p' "$work/$1" | awk '{ n += $1 } END { print n + 0 }') assertions"
}

run nvidia "$nvidias"
run ours "$ours"
failed=0
same() { # NAME
	if ! diff "$work/nvidia.results" "$work/$1.results"; then
		echo "FAIL $1 differs from NVIDIA's runtime (<)"
		failed=1
	fi
}
same ours
if [ -n "$simulated" ]; then
	VIRGATE_SIM=1 VIRGATE_SIM_DIR=$work/node
	export VIRGATE_SIM VIRGATE_SIM_DIR
	run simulated "$simulated:$ours"
	same simulated
fi
grep '^FAIL\|^  differs' "$work/nvidia" | sed 's/^/with NVIDIA: /'
[ "$failed" -eq 0 ] && ! grep -q '^FAIL' "$work/nvidia"
