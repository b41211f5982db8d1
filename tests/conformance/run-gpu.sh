#!/bin/sh
# run-gpu.sh [BUILD] [FAMILY…]: runs the conformance programs against the real driver of this machine.
# BUILD is a directory that contains the programs, at its top or in tests/conformance/. Without BUILD, or with "-",
# this script compiles the programs with gcc and the CUDA toolkit (CUDA=/usr/local/cuda). FAMILY is the name of a
# program without "conformance_"; without FAMILY, the script runs all programs. At the end it prints how many tests of
# all programs passed, failed and were skipped. With INSIDE=path/of/virgate, each program runs inside a vGPU of 64 GiB,
# where the driver must behave in the same way.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:--}
[ $# -eq 0 ] || shift

driver=
for folder in $(/sbin/ldconfig -p 2>/dev/null | sed -n 's,.* => \(/.*\)/libcuda\.so\.1$,\1,p') \
	/usr/lib/x86_64-linux-gnu /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64 /usr/lib \
	/usr/local/cuda/compat; do
	if [ -e "$folder/libcuda.so.1" ]; then
		driver=$folder
		break
	fi
done
if [ -z "$driver" ] || ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "run-gpu.sh: no NVIDIA driver or GPU on this machine" >&2
	exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
if [ "$build" = - ]; then
	cuda=${CUDA:-/usr/local/cuda}
	stub=$cuda/lib64/stubs
	[ -e "$stub/libcuda.so" ] || { ln -s "$driver/libcuda.so.1" "$work/libcuda.so"; stub=$work; }
	programs=$work
	for source in "$here"/*.c; do
		gcc -std=gnu17 -D_GNU_SOURCE -O1 -w -I "$cuda/include" -o "$work/conformance_$(basename "$source" .c)" \
			"$source" -L "$stub" -lcuda -lpthread -ldl -lm || exit 1
	done
elif [ -d "$build/tests/conformance" ]; then
	programs=$build/tests/conformance
else
	programs=$build
fi

unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML
passed=0 failed=0 skipped=0 assertions=0
for program in "$programs"/conformance_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	family=$(basename "$program" | sed 's/^conformance_//')
	if [ $# -gt 0 ]; then
		case " $* " in *" $family "*) ;; *) continue ;; esac
	fi
	echo "== $family"
	LD_LIBRARY_PATH=$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -k 5 "${LIMIT:-60}" \
		${INSIDE:+"$INSIDE" run --memory 64G --} "$program" >"$work/output" 2>&1
	status=$?
	cat "$work/output"
	counts=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$work/output" | tail -n 1)
	if [ -z "$counts" ]; then
		echo "FAIL $family: ended with status $status"
		failed=$((failed + 1))
		continue
	fi
	set_counts() { passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5)); }
	# shellcheck disable=SC2086
	set_counts $counts
	for count in $(sed -n 's/^# \([0-9]*\) assertions$/\1/p' "$work/output"); do
		assertions=$((assertions + count))
	done
done
echo "$assertions assertions"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
