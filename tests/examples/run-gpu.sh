#!/bin/sh
# run-gpu.sh BUILD_OR_BUNDLE: runs the example programs on libvirgate, with the real driver of this machine.
set -u
root=$1
if [ -d "$root/libexec/virgate/examples" ]; then
	programs=$root/libexec/virgate/examples libraries=$root/lib
else
	programs=$root/examples libraries=$root/src
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset LD_PRELOAD VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML

passed=0 failed=0 skipped=0
for program in "$programs"/*; do
	[ -f "$program" ] && [ -x "$program" ] && grep -qa 'libvirgate\.so\.[0-9]' "$program" || continue
	name=${program##*/}
	output=$(timeout -k 5 "${LIMIT:-60}" "$program" 2>&1)
	status=$?
	last=$(printf '%s\n' "$output" | tail -n 1)
	case $status in
	0) passed=$((passed + 1)) && echo "ok $name: $last" ;;
	77) skipped=$((skipped + 1)) && echo "skip $name: $last" ;;
	*) failed=$((failed + 1)) && echo "FAIL $name: ended with status $status: $last" ;;
	esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
