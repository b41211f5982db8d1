#!/bin/bash
# test_secure.sh PROBE CUDA_INTERPOSER NVML_INTERPOSER DRIVER: checks a set-user-ID program that loads an interposer.
# The interposer must take no driver, ledger or log level from the environment. Each case runs first without the
# set-user-ID bit, to show that the variable has an effect then.
set -uo pipefail
passed=0 failed=0
if ((EUID != 0)); then
	echo "skip: only root can make a set-user-ID program that another user starts"
	exit 77
fi
if ! command -v setpriv >/dev/null; then
	echo "skip: there is no setpriv here"
	exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
install -m 755 "$1" "$dir/probe"
install -m 4755 "$1" "$dir/probe-setuid"
install -m 755 "$2" "$dir/libvirgate-cuda.so"
install -m 755 "$3" "$dir/libvirgate-nvml.so"
install -m 755 "$4" "$dir/named-driver.so"
echo "no ledger" >"$dir/named-ledger"
chmod 644 "$dir/named-ledger"

run() { # PROGRAM INTERPOSER FUNCTION VARIABLE=VALUE…
	local program=$1 interposer=$2 function=$3
	shift 3
	env "$@" setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$dir/$program" "$dir/$interposer" "$function" named-driver 2>&1
}

expect() { # WHAT OUTPUT PATTERN
	if [[ $2 == $3 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1: got: $2"
	fi
}

if [[ $(run probe-setuid libvirgate-cuda.so cuInit) != *secure=1* ]]; then
	echo "skip: set-user-ID programs have no effect in $dir (nosuid?)"
	exit 77
fi
for row in libvirgate-cuda.so:cuInit:VIRGATE_DRIVER:cuInit \
	libvirgate-nvml.so:nvmlInitWithFlags:VIRGATE_NVML:nvmlDeviceGetHandleByIndex; do
	# `first` is a function of the interposer that looks for the ledger
	IFS=: read -r interposer function variable first <<<"$row"
	expect "$variable works without the bit" \
		"$(run probe "$interposer" "$function" "$variable=$dir/named-driver.so")" '*secure=0 named=1*'
	expect "$variable is not for a set-user-ID program" \
		"$(run probe-setuid "$interposer" "$function" "$variable=$dir/named-driver.so")" '*secure=1 named=0*'
	expect "VIRGATE_LEDGER works without the bit ($interposer)" \
		"$(run probe "$interposer" "$first" VIRGATE_LOG=warning "VIRGATE_LEDGER=$dir/named-ledger")" \
		'*named-ledger*'
	expect "VIRGATE_LEDGER is not for a set-user-ID program ($interposer)" \
		"$(run probe-setuid "$interposer" "$first" VIRGATE_LOG=warning "VIRGATE_LEDGER=$dir/named-ledger")" \
		'secure=1 named=0'
done
# The warning that no driver was found appears only if the interposer has used the log level.
expect "VIRGATE_LOG works without the bit" \
	"$(run probe libvirgate-nvml.so nvmlInitWithFlags VIRGATE_LOG=warning)" '*no libnvidia-ml.so.1*'
expect "VIRGATE_LOG is not for a set-user-ID program" \
	"$(run probe-setuid libvirgate-nvml.so nvmlInitWithFlags VIRGATE_LOG=warning)" 'secure=1 named=0'
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
