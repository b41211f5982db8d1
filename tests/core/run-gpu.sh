#!/bin/sh
# run-gpu.sh BUILD_OR_BUNDLE [NAME…]: runs the tests of the object model with the real driver of this machine, and
# prints the counts of all programs. ROOM=vram runs the tests of that directory instead. With INSIDE=path/of/virgate
# each program runs in a vGPU of 64 GiB.
set -u
root=$1
shift
room=${ROOM:-core}
if [ -d "$root/libexec/virgate/tests/$room" ]; then
	programs=$root/libexec/virgate/tests/$room libraries=$root/lib:$root/libexec/virgate/src
else
	programs=$root/tests/$room libraries=$root/src
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML

output=$(mktemp)
trap 'rm -f "$output"' EXIT INT TERM
passed=0 failed=0 skipped=0
add() { passed=$((passed + $1)) failed=$((failed + $3)) skipped=$((skipped + $5)); }
for program in "$programs"/test-"$room"-*; do
	name=${program##*/test-"$room"-}
	[ -f "$program" ] && [ -x "$program" ] || continue
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	echo "== $name"
	timeout -k 5 "${LIMIT:-60}" ${INSIDE:+"$INSIDE" run --memory 64G --} "$program" >"$output" 2>&1
	status=$?
	cat "$output"
	counts=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$output" | tail -n 1)
	if [ -z "$counts" ]; then
		echo "FAIL $name: ended with status $status"
		failed=$((failed + 1))
		continue
	fi
	# shellcheck disable=SC2086
	add $counts
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
