#!/bin/bash
# test_plugin_scripts.sh ROOT: runs the installation scripts of the package virgate-device-plugin, of Debian and of RPM,
# while a stand-in for the plugin runs in another mount namespace. The test has its own PID namespace, because the
# scripts send signals to processes.
set -uo pipefail
root=$1
if [[ ! ${IN_NAMESPACE-} ]]; then
	namespaces=(unshare --mount --pid --fork --kill-child --mount-proc)
	"${namespaces[@]}" true 2>/dev/null || namespaces+=(--user --map-root-user)
	if ! "${namespaces[@]}" true 2>/dev/null; then
		echo "skip test_plugin_scripts.sh: no right to make mount and PID namespaces"
		echo "0 passed, 0 failed, 1 skipped"
		exit 77
	fi
	# Reset these signals to their defaults: a caller such as nohup ignores SIGHUP, and the stand-in would inherit
	# that.
	IN_NAMESPACE=1 exec env --default-signal=HUP,TERM "${namespaces[@]}" "$0" "$@"
fi
readonly patience=120 # seconds to wait for an event
work=$(mktemp -d /tmp/virgate-test-XXXXXX)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
node=$work/node/usr/bin/virgate-device-plugin

wait_until() { # COMMAND…
	local end=$((SECONDS + patience))
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

check() { # NAME COMMAND…
	if "${@:2}"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1"
	fi
}

install_program() { # PATH: installs the stand-in there, and replaces an older file as dpkg does
	cp "$(command -v sleep)" "$1.new" && mv "$1.new" "$1"
}

runs() { # PROCESS TEXT: succeeds if the process executes a program whose path ends with TEXT
	[[ $(readlink "/proc/$1/exe") == *"$2" ]]
}

start_plugin() { # [NAME]: starts the stand-in in another mount namespace, with the root of the node at /host
	local name=${1-virgate-device-plugin}
	# shellcheck disable=SC2016
	unshare --mount sh -c 'mount --bind "$0/node" "$0/host" && exec "$0/host/usr/bin/$1" 100000' "$work" "$name" &
	plugin=$!
	wait_until runs "$plugin" "/host/usr/bin/$name"
}

state() { # prints the letter of the state of the plugin (ps), or nothing after it was reaped
	sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$plugin/status" 2>/dev/null
}

is_at_rest() { # succeeds if the plugin sleeps, so that it has handled a signal, or has ended
	[[ $(state) == [SZ] || ! $(state) ]]
}

is_alive() {
	wait_until is_at_rest && [[ $(state) == S ]]
}

has_ended() {
	[[ $(state) == Z || ! $(state) ]]
}

ended_by() { # SIGNAL
	wait_until has_ended || kill -KILL "$plugin"
	wait "$plugin" 2>/dev/null
	[[ $? == $((128 + $(kill -l "$1"))) ]]
}

make_rpm_scripts() { # makes the scripts of RPM with the commands of the spec file
	ln -s "$root/debian" "$work/debian"
	local commands
	commands=$(sed -n -e 's|%{_libdir}|/usr/lib64|' -e '/^for name in/,/^done/p' "$root/rpm/virgate.spec")
	(cd "$work" && eval "$commands")
}

run_script() { # SCRIPT ARGUMENTS: runs the script; ARGUMENTS is one word that is split into arguments
	# shellcheck disable=SC2086
	sh "$1" $2
}

# test_upgrade NAME SCRIPT FIRST UPGRADE: checks that SCRIPT sends SIGHUP to the plugin only in an upgrade that replaced
# its program. FIRST are the script's arguments for a first installation, UPGRADE those for an upgrade.
test_upgrade() {
	install_program "$node"
	check "$1: the plugin starts" start_plugin
	run_script "$2" "$4"
	check "$1: a plugin whose program was not replaced continues" is_alive
	install_program "$node"
	run_script "$2" "$3"
	check "$1: an installation sends no signal" is_alive
	run_script "$2" "$4"
	check "$1: an upgrade sends SIGHUP" ended_by HUP
}

# test_removal NAME SCRIPT UPGRADE REMOVE: checks that SCRIPT ends the plugin in a removal, but not in an upgrade.
# UPGRADE and REMOVE are the script's arguments in these two cases.
test_removal() {
	install_program "$node"
	check "$1: the plugin starts" start_plugin
	rm "$node"
	run_script "$2" "$3"
	check "$1: an upgrade does not end the plugin" is_alive
	run_script "$2" "$4"
	check "$1: the removal ends the plugin" ended_by TERM
}

test_other_program() { # NAME SCRIPT REMOVE
	install_program "$node-other"
	check "$1: another program starts" start_plugin virgate-device-plugin-other
	rm "$node-other"
	run_script "$2" "$3"
	check "$1: another program continues" is_alive
	kill -KILL "$plugin"
	wait "$plugin" 2>/dev/null
}

mkdir -p "$work/node/usr/bin" "$work/host"
check "the scripts of RPM are made" make_rpm_scripts
name=virgate-device-plugin
test_upgrade Debian "$root/debian/$name.postinst" "configure" "configure 1.0"
test_removal Debian "$root/debian/$name.postrm" "upgrade 1.0" remove
test_other_program Debian "$root/debian/$name.postrm" remove
test_upgrade RPM "$work/$name.post" 1 2
test_removal RPM "$work/$name.postun" 1 0
# There is no script that runs before the removal. If the plugin were ended while its files exist, the kubelet would
# start it again.
check "no script runs before the removal" test ! -e "$root/debian/$name.prerm" -a ! -e "$work/$name.preun"
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
