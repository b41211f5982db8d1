#!/bin/sh
# run-gpu.sh BUILD_OR_BUNDLE: runs the programs runtime_* on this machine's GPU with NVIDIA's libcudart.so.13 and with
# ours, and with ours on the simulated GPU. A test passes if all three runs reach it, none fails it, and at least one
# passes it. NVIDIA's library is in $NVIDIAS or /usr/local/cuda/lib64; without it only ours is run.
set -u
root=$(cd "$1" && pwd) || exit 2
if [ -d "$root/libexec/virgate" ]; then
	programs=$root/libexec/virgate/tests/runtime libraries=$root/lib/virgate
else
	programs=$root/tests/runtime libraries=$root
fi
nvidias=${NVIDIAS:-/usr/local/cuda/lib64}
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "run-gpu.sh: no NVIDIA GPU on this machine" >&2
	exit 77
fi
unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# run NAME LIBRARIES: runs all programs; writes "PROGRAM TEST ok", "PROGRAM TEST FAIL" and so on to $work/NAME.
run() {
	: >"$work/$1"
	for program in "$programs"/runtime_*; do
		[ -f "$program" ] && [ -x "$program" ] || continue
		LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -k 5 120 "$program" >"$work/output" 2>&1
		status=$?
		sed "s/^/$1: $(basename "$program"): /" "$work/output" | grep -v ': ok '
		sed -n "s/^\(ok\|FAIL\|skip\) \([a-z_0-9]*\).*/$(basename "$program") \2 \1/p" "$work/output" \
			>>"$work/$1"
		[ "$status" -le 1 ] || [ "$status" = 77 ] || echo "$(basename "$program") (exit) FAIL" >>"$work/$1"
	done
	sort -o "$work/$1" "$work/$1"
}

run ours "$libraries/runtime"
VIRGATE_SIM=1 VIRGATE_SIM_DIR=$work/node
export VIRGATE_SIM VIRGATE_SIM_DIR
mkdir "$VIRGATE_SIM_DIR"
run simulated "$libraries/sim:$libraries/runtime"
unset VIRGATE_SIM VIRGATE_SIM_DIR
skipped=0
if [ -e "$nvidias/libcudart.so.13" ]; then
	run nvidias "$nvidias"
else
	echo "skip NVIDIA's runtime library: $nvidias has no libcudart.so.13; name its directory in NVIDIAS"
	skipped=1
	cp "$work/ours" "$work/nvidias"
fi
# Prints FAIL for each test that one of the three runs fails or does not reach, and ok for each other test that a run
# passes.
cat "$work/ours" "$work/simulated" "$work/nvidias" | awk '
	{ test = $1 " " $2; seen[test]++; if ($3 == "FAIL") bad[test] = 1; if ($3 == "ok") good[test] = 1 }
	END {
		for (test in seen)
			if (bad[test] || seen[test] != 3)
				print "FAIL", test
			else if (good[test])
				print "ok", test
	}
' | sort >"$work/all"
grep '^FAIL' "$work/all"
passed=$(grep -c '^ok' "$work/all") failed=$(grep -c '^FAIL' "$work/all")
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
