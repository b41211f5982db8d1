#!/bin/bash
# test_unit.sh UNIT VIRGATED CONFINED.PY [PROGRAM…]: tests the unit of the system service. Without programs, systemd
# must rate the exposure of the unit as 3.0 at most. With programs, their tests must pass while the daemon has the
# unit's restrictions.
set -uo pipefail
unit=$1 program=$2
shift 3
skip() {
	echo "skip: $1"
	exit 77
}
command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze here"
systemd-analyze security --help 2>&1 | grep -q -- --offline || skip "this systemd-analyze has no --offline"
if (($# == 0)); then
	if ! systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" >report 2>&1; then
		grep -v ✓ report
		echo "FAIL the exposure of $unit is more than 3.0"
		echo "0 passed, 1 failed, 0 skipped"
		exit 1
	fi
	grep Overall report
	echo "1 passed, 0 failed, 0 skipped"
	exit 0
fi
((EUID == 0)) || skip "only root can restrict the daemon as systemd does"
[[ $(uname -m) == x86_64 ]] || skip "the filter of system calls is for x86-64"
unshare --mount true 2>/dev/null || skip "no mount namespace can be made here"
sets=$(mktemp)
trap 'rm -f "$sets"' EXIT
systemd-analyze syscall-filter --no-pager >"$sets" || skip "systemd-analyze does not list the sets of system calls"
export CONFINED_UNIT=$unit CONFINED_PROGRAM=$program CONFINED_SETS=$sets
failed=0
for test; do
	"$test" || (($? == 77)) || failed=1
done
exit $failed
