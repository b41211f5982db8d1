#!/bin/bash
# test_install.sh BUILD GUIDE TUTORIAL [FILE…]: checks an installation by `make install`: the programs with the
# simulated driver, the libraries with pkg-config (shared and static), the example of the guide, pages, completion, the
# systemd unit. The programs must find the simulated driver in three layouts. In the first two, the libraries are in the
# configured library directory, below the configured prefix or a staged /usr. In the third, they are in lib, as in a
# bundle. FILE is a further library that must be installed beside the interposers.
set -uo pipefail
build=$1 guide=$2 tutorial=$3
shift 3
place=$(mktemp -d /tmp/virgate-test-XXXXXX)
trap 'rm -rf "$place"' EXIT
root=$place/root
passed=0 failed=0 skipped=0

check() {
	local what=$1
	shift
	if "$@" >"$place/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $what"
		cat "$place/log"
	fi
}

check "the installation" meson install -C "$build" --destdir "$root" --no-rebuild --quiet
prefix=$root$(meson introspect "$build" --buildoptions |
	python3 -c 'import json,sys; print([o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"][0])')
package=$(find "$root" -name virgate.pc)
libdir=$(dirname "$(dirname "$package")")
export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$libdir
sed -n '/^```c$/,/^```$/p' "$guide" | grep -v '^```' >"$place/example.c"

# Directories for the daemon and the simulated GPUs that the installed programs use.
mkdir -m 700 "$place/run" "$place/state" "$place/sim"
export VIRGATE_RUNTIME_DIR=$place/run VIRGATE_STATE_DIR=$place/state VIRGATE_SIM_DIR=$place/sim
unset VIRGATE_SIM VIRGATE_DRIVER VIRGATE_NVML LD_PRELOAD
in_a_vgpu() {
	"$prefix/bin/virgate" run --sim --memory 256M -- "$build/examples/grow" 2>"$place/refusal" &&
		"$prefix/bin/virgate" ps --sim
}
daemon_is_ours() {
	local daemons
	"$prefix/bin/virgate" create kept --memory 64M --sim || return
	daemons=$(readlink /proc/[0-9]*/exe)
	[[ $'\n'$daemons$'\n' == *$'\n'"$prefix/bin/virgated"$'\n'* ]]
}
check "a program in a vGPU" in_a_vgpu
check "it was refused by its quota" grep 'vGPU .*: asked .* of 256.0 MiB used' "$place/refusal"
check "the installed daemon serves" daemon_is_ours
if command -v clang >/dev/null; then
	echo '#include <cuda_profiler_api.h>
	__global__ void nothing() {}
	int main() { nothing<<<1, 1>>>(); return cudaProfilerStop() + cudaDeviceSynchronize(); }' >"$place/nothing.cu"
	check "a program by virgate-clang" env VIRGATE_RUNTIME="$libdir/virgate/runtime" \
		"$prefix/bin/virgate-clang" "$place/nothing.cu" -o "$place/nothing"
	check "it runs" "$prefix/bin/virgate" run --sim --memory 1G -- "$place/nothing"
else
	echo "skip a program by virgate-clang: no clang"
	skipped=1
fi
check "the daemon ends" "$prefix/bin/virgate" shutdown --sim
check "the program" test "$("$prefix/bin/virgate" --version)" = "virgate $(pkg-config --modversion virgate)"
check "the pkg-config file" pkg-config --exists virgate
needed=$(pkg-config --print-requires-private virgate | sort | tr '\n' ' ')
check "it names what the archive needs" test "$needed" = "inih jansson liblz4 libsodium libzstd "
compile() { # PROGRAM FLAGS…
	cc -std=gnu17 -Wall -Werror "$place/example.c" -o "$place/$1" "${@:2}"
}
sed -n '/^```c$/,/^```$/p' "$tutorial" | grep -v '^```' >"$place/add.c"
# shellcheck disable=SC2046
check "the tutorial's program" cc "$place/add.c" -o "$place/add" $(pkg-config --cflags --libs virgate)

# Starts the system's daemon on a simulated GPU, and checks that it becomes ready.
system_daemon() { # BIN
	local ready serving
	coproc daemon { VIRGATE_SIM=1 exec "$1/virgated" --system --ready-fd 3 3>&1 2>"$place/daemon.log"; }
	serving=$daemon_PID
	read -r -n 1 -t 20 -u "${daemon[0]}" ready
	VIRGATE_START_DAEMON=no "$1/virgate" devices --sim
	kill "$serving" && wait "$serving"
	cat "$place/daemon.log"
	[[ $ready == 1 ]]
}
# simulator_is_found LAYOUT BIN LIBDIR: checks that the programs find the simulated driver if only VIRGATE_SIM or --sim
# is given, without the driver's directory.
simulator_is_found() {
	local layout="$1:" bin=$2
	export LD_LIBRARY_PATH=$3
	check "$layout the tutorial's program" sh -c "VIRGATE_SIM=1 '$place/add' | grep '^100000 elements, 0 wrong$'"
	check "$layout share selftest" "$bin/virgate" share selftest --sim
	check "$layout doctor" sh -c \
		"'$bin/virgate' doctor --sim | grep 'driver library.*$3.*sim/libcuda.so.1 (simulated)'"
	check "$layout the system's daemon" system_daemon "$bin"
}
copy_layout() { # ROOT LIBDIR: links the installed programs and libraries into a layout
	mkdir -p "$1/bin" "$1/$2"
	cp -al "$prefix"/bin/virgate* "$1/bin/"
	cp -al "$libdir"/libvirgate.so* "$libdir/virgate" "$1/$2/"
}
copy_layout "$place/stage/usr" "${libdir#"$prefix/"}"
copy_layout "$place/bundle" lib
simulator_is_found "the configured prefix" "$prefix/bin" "$libdir"
simulator_is_found "PREFIX=/usr" "$place/stage/usr/bin" "$place/stage/usr/${libdir#"$prefix/"}"
simulator_is_found "libdir=lib" "$place/bundle/bin" "$place/bundle/lib"
export LD_LIBRARY_PATH=$libdir

# shellcheck disable=SC2046
check "the guide's example, shared" compile shared $(pkg-config --cflags --libs virgate)
check "it needs the library by its name" sh -c "readelf -d '$place/shared' | grep -q 'NEEDED.*libvirgate.so.1'"
check "the guide's example runs" sh -c "'$place/shared'; test \$? = 2"
rm -f "$libdir"/libvirgate.so*
# shellcheck disable=SC2046
check "the guide's example, static" compile static $(pkg-config --cflags --static --libs virgate)
check "it needs no library of ours" sh -c "! readelf -d '$place/static' | grep -q libvirgate"
for file in man1/virgate.1 man1/virgate-run.1 man8/virgated.8 man5/virgate.conf.5; do
	check "the page $file" sh -c "head -n 40 '$prefix'/share/man/$file | grep -q '^.TH \"virgate'"
done
check "the reference" grep -q '^#### vg_stream_create$' "$prefix/share/doc/virgate/docs/reference.md"
check "the page vg_stream.3" sh -c "head -n 40 '$prefix'/share/man/man3/vg_stream.3 | grep -q '^.TH \"vg_stream'"
completion=$prefix/share/bash-completion/completions/virgate
check "the completion" env PATH="$prefix/bin:$PATH" bash -c "source '$completion' &&
	COMP_WORDS=(virgate insp) COMP_CWORD=1 && _virgate && test \"\${COMPREPLY[*]}\" = inspect"
for file in zsh/site-functions/_virgate fish/vendor_completions.d/virgate.fish; do
	check "the completion $file" grep -q 'virgate complete' "$prefix/share/$file"
done
started=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$prefix/lib/systemd/system/virgated.service")
check "the unit starts the daemon" test -x "$root$started"
for file in libvirgate-cuda.so libvirgate-nvml.so sim/libcuda.so.1 sim/libnvidia-ml.so.1 "$@"; do
	check "the library $file" test -e "$libdir/virgate/$file"
done

check "the headers for clang" test -e "$prefix/share/virgate/cuda/device/host.h"
check "virgate-clang" test -x "$prefix/bin/virgate-clang" -a -x "$prefix/share/virgate/cuda/compile-ptx"

# The documents, examples and licence must be installed as in the source tree, so that their links work.
documents=$prefix/share/doc/virgate
dead_links() {
	python3 - "$documents" <<'END'
import pathlib, re, sys
dead = [f"{page}: {link}" for page in pathlib.Path(sys.argv[1]).rglob("*.md")
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:|#", link) and not (page.parent / link.split("#")[0]).exists()]
sys.exit("\n".join(dead) or 0)
END
}
for file in LICENSE README.md docs/tutorial.md examples/README.md examples/library/compile.c examples/matmul.cu \
	scripts/embed.sh; do
	check "the document $file" test -s "$documents/$file"
done
check "links between the documents" dead_links
check "no build file among the documents" sh -c "! find '$documents' -name meson.build | grep ."

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
