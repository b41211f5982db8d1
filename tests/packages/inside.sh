#!/bin/bash
# inside.sh OLD NEW: installs, upgrades and removes the packages of /check, of the versions OLD and NEW. It runs as root
# in a new root directory and PID namespace, so that all processes that it starts end with it.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C VIRGATE_SIM_DIR=/check/sim
old=$1 new=$2
own=(libvirgate1 libvirgate-dev virgate virgate-device-plugin virgate-exporter virgate-sim)
passed=0 failed=0
readonly patience=120 # seconds to wait for an event, because the machine may be busy

# check NAME COMMAND…: runs the command, and counts whether it succeeds. If it does not, shows its output, which is in
# /check/output.
check() {
	local name=$1
	shift
	if "$@" >/check/output 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s: %s\n' "$name" "$*"
		tail -n 15 /check/output
	fi
}

# Waits until a command succeeds.
wait_until() {
	local end=$((SECONDS + patience))
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

package_files() { # VERSION [NAME…]: prints the files of the packages
	local version=$1 name
	shift
	for name; do
		echo "/check/${name}_${version}_amd64.deb"
	done
}

find_files() { # prints the files that a purge must not leave, without directories to which apt and dpkg write
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /check -o -path /var/cache -o -path /var/log \
		-o -path /var/lib/apt -o -path /var/lib/dpkg -o -path '/etc/ld.so.cache*' -o -name __pycache__ \) \
		-prune -o -print | sort
	find /var/lib/dpkg/info -name '*virgate*'
}

is_version() { # VERSION: succeeds if every package is installed in this version
	local name
	for name in "${own[@]}"; do
		[[ $(dpkg-query -W -f '${db:Status-Status} ${Version}' "$name") == "installed $1" ]] || {
			dpkg-query -W -f '${Package} ${Version}: ${Status}\n' "$name"
			return 1
		}
	done
}

is_gone() {
	local name
	for name in "${own[@]}" virgate-slurm; do
		! dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null || return 1
	done
}

# Succeeds if both daemons and the device plugin run the program that is installed now, with the process ids that they
# had before.
run_new_program() {
	local process
	[[ $(readlink "/proc/$plugin/exe") == */usr/bin/virgate-device-plugin ]] || return 1
	for process in "$system" "$users"; do
		[[ $(readlink "/proc/$process/exe") == /usr/bin/virgated ]] || return 1
	done
}

start_daemons() {
	install -d -m 700 -o daemon /check/user
	VIRGATE_SIM=1 virgated --system >/check/system.log 2>&1 &
	system=$!
	# A `virgate run` of this user starts a daemon for that user.
	user=(setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/check/user
		VIRGATE_RUNTIME_DIR=/check/user/run VIRGATE_SIM_DIR=/check/user/sim)
	wait_until test -S /run/virgate/virgated.sock
}

# Starts the device plugin. It waits for a kubelet, which does not exist here. It runs in a mount namespace and a root
# of its own, as in the container of the DaemonSet.
start_plugin() {
	mkdir /check/kubelet /check/host
	printf '[profile 1g]\nmemory = 1G\n' >/check/virgate.conf
	# The root directory is no mount point, so unshare cannot change the propagation of mounts. It is private
	# already.
	VIRGATE_SYSTEM_CONFIG=/check/virgate.conf unshare --mount --propagation unchanged sh -c '
		mount --rbind / /check/host &&
			exec chroot /check/host virgate-device-plugin --kubelet-dir /check/kubelet' \
		>/check/plugin.log 2>&1 &
	plugin=$!
	wait_until plugin_serves || {
		cat /check/plugin.log
		return 1
	}
}

plugin_serves() {
	test -S /check/kubelet/virgate-1g.sock && grep -q 'waits for the kubelet' /check/plugin.log
}

start_tenants() {
	install -d /check/root
	virgate create --sim --memory 256M kept &&
		"${user[@]}" virgate create --sim --memory 256M kept || return 1
	virgate run --sim --vgpu kept -- python3 /check/tenant.py /check/root >/check/root/log 2>&1 &
	"${user[@]}" virgate run --sim --vgpu kept -- python3 /check/tenant.py /check/user >/check/user/log 2>&1 &
	wait_until test -e /check/root/first && wait_until test -e /check/user/first &&
		users=$(cat /check/user/run/lock)
}

tenants_hold() { # FILE TEXT: succeeds if both tenants wrote TEXT into FILE
	[[ $(cat "/check/root/$1" "/check/user/$1") == "$2"$'\n'"$2" ]] || {
		cat "/check/root/$1" "/check/user/$1"
		return 1
	}
}

lists_tenants() {
	virgate ps --sim | grep -q '^kept .* 1$' && "${user[@]}" virgate ps --sim | grep -q '^kept .* 1$'
}

allocate_more() {
	touch /check/root/more /check/user/more
	wait_until test -e /check/root/second && wait_until test -e /check/user/second
}

# Prints the packages that apt would install as dependencies of Virgate's. The test installs them before it lists the
# files. So the list after the purge differs only by files of Virgate's packages.
find_dependencies() {
	# shellcheck disable=SC2046
	apt-get -s install $(package_files "$old" "${own[@]}") | sed -n 's/^Inst \([^ ]*\) .*/\1/p' |
		grep -vxF "$(printf '%s\n' "${own[@]}")"
}

refuse_removal() { # NAME TEXT: succeeds if dpkg refuses to remove only this package, and says why
	! dpkg --remove --force-depends "$1" && grep -q "$1 cannot be removed while programs run $2:" /check/output &&
		grep -q 'process [0-9]* in vGPU kept: python3 /check/tenant.py /check/root' /check/output &&
		grep -q 'process [0-9]* in vGPU kept: python3 /check/tenant.py /check/user' /check/output
}

fail_to_remove_all() {
	! apt-get remove -y -q virgate virgate-sim
}

# Requests the figures from the exporter over its Unix socket, as Prometheus does.
exporter_serves() {
	python3 -c 'import socket
with socket.socket(socket.AF_UNIX) as exporter:
	exporter.connect("/check/metrics")
	exporter.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
	print(exporter.makefile().read())' >/check/figures && grep -x 'virgate_up 1' /check/figures && return
	cat /check/figures /check/exporter.log
	return 1
}

end_tenants() {
	touch /check/root/end /check/user/end
	wait_until no_tenants && "${user[@]}" virgate shutdown --sim
}

no_tenants() {
	! grep -qsa tenant.py /proc/[0-9]*/cmdline
}

no_daemon() {
	local process
	for process in /proc/[0-9]*; do
		[[ $(readlink "$process/exe") != */usr/bin/virgate* ]] || return 1
	done
}

no_files_left() {
	find_files >/check/after
	! diff /check/before /check/after
}

# The plugin for Slurm is built for one version of Slurm. If this distribution has that version, the plugin must work.
# Otherwise apt must refuse to install it, with a message that names the unmet dependency.
check_slurm() {
	local file=/check/virgate-slurm_${new}_amd64.deb low high here
	[[ -e $file ]] || {
		echo "skip virgate-slurm: built without the headers of Slurm"
		skipped=1
		return
	}
	low=$(dpkg-deb -f "$file" Depends | grep -o 'plugins (>= [0-9.]*' | cut -d' ' -f3)
	high=$(dpkg-deb -f "$file" Depends | grep -o 'plugins (<< [0-9.~]*' | cut -d' ' -f3)
	check "virgate-slurm names the versions of Slurm" test -n "$low" -a -n "$high"
	here=$(apt-cache show slurm-wlm-basic-plugins | sed -n 's/^Version: //p' | head -n 1)
	if dpkg --compare-versions "$here" ge "$low" && dpkg --compare-versions "$here" lt "$high"; then
		check "virgate-slurm is installed" apt-get install -y -q "$file" slurm-client
		use_plugin
	else
		check "virgate-slurm is refused: it is for Slurm $low, here is $here" refuse_slurm "$file"
	fi
}

refuse_slurm() {
	! apt-get install -y -q "$1" && grep -q 'virgate-slurm : Depends: slurm-wlm-basic-plugins' /check/output
}

srun_has_options() {
	srun --help && grep -q -e '--vgpu-memory=' /check/output
}

# Checks that srun loads the plugin from the example of plugstack.conf, and offers the plugin's options.
use_plugin() {
	cp /usr/share/doc/virgate-slurm/examples/plugstack.conf /etc/slurm/plugstack.conf.d/virgate.conf
	printf 'ClusterName=check\nSlurmctldHost=localhost\nNodeName=localhost\n' >/etc/slurm/slurm.conf
	check "srun has the plugin's options" srun_has_options
	check "virgate-slurm is purged" apt-get purge -y -q virgate-slurm
	check "virgate-slurm leaves no file" test ! -e /usr/lib/x86_64-linux-gnu/slurm-wlm/virgate-slurm.so \
		-a ! -e /usr/share/virgate/slurm -a ! -e /usr/share/doc/virgate-slurm
}

skipped=0
if ! apt-get update -q >/check/output 2>&1 || grep -q '^[EW]: ' /check/output; then
	echo "skip: no package archive: $(grep '^[EW]: ' /check/output | head -n 1)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # no service starts
chmod +x /usr/sbin/policy-rc.d
# shellcheck disable=SC2046
check "the dependencies are installed" apt-get install -y -q $(find_dependencies)
find_files >/check/before

# shellcheck disable=SC2046
check "the packages are installed" apt-get install -y -q $(package_files "$old" "${own[@]}")
check "every package is installed" is_version "$old"
check "virgate runs" virgate version
check "the units are valid" systemd-analyze verify --man=no /lib/systemd/system/virgated.service \
	/lib/systemd/system/virgate-exporter.service /lib/systemd/system/virgate-device-plugin.service
check "no service is enabled" test -z "$(find /etc/systemd -name 'virgate*')"
check "the system's daemon starts" start_daemons
check "the device plugin listens" start_plugin
check "tenants start" start_tenants
check "the tenants have allocated" tenants_hold first "[0, 0, 0] 0"
# shellcheck disable=SC2046
check "the packages are upgraded" apt-get install -y -q $(package_files "$new" "${own[@]}")
check "every package is upgraded" is_version "$new"
check "the daemons run the new program" wait_until run_new_program
check "the new daemons list the tenants" wait_until lists_tenants
VIRGATE_SIM=1 virgate-exporter --listen unix:/check/metrics >/check/exporter.log 2>&1 &
check "the exporter serves figures" wait_until exporter_serves
kill $!
check "the tenants allocate more" allocate_more
check "the quota holds: 50 MiB fit, 200 MiB do not" tenants_hold second "0 2"
check "virgate is not removed while tenants run" refuse_removal virgate 'in vGPUs'
check "virgate-sim is not removed while tenants run" refuse_removal virgate-sim 'on the simulated GPU'
check "apt does not remove them either" fail_to_remove_all
check "every package is still installed" is_version "$new"
check "the daemons still run" run_new_program
check "the device plugin listens again" wait_until plugin_serves
check "the examples for Kubernetes are there" test -f /usr/share/doc/virgate-device-plugin/examples/daemonset.yaml \
	-a -f /usr/share/doc/virgate-device-plugin/examples/pod.yaml
check "the tenants end" end_tenants
check_slurm
check "the packages are purged" apt-get purge -y -q "${own[@]}"
check "no package is left" is_gone
check "no daemon is left" wait_until no_daemon
check "no file is left" no_files_left
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed == 0 ]]
