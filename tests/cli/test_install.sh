#!/bin/bash
# test_install.sh BUILD GUIDE: what `make install` puts down works from there: the programs, the
# libraries by pkg-config (shared and static), the guide's example, pages, completion, unit.
set -uo pipefail
build=$1 guide=$2
place=$(mktemp -d /tmp/virgate-test-XXXXXX)
trap 'rm -rf "$place"' EXIT
root=$place/root
passed=0 failed=0

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

check "the program" test "$("$prefix/bin/virgate" --version)" = "virgate $(pkg-config --modversion virgate)"
check "the pkg-config file" pkg-config --exists virgate
check "the guide's example, shared" sh -c "cc -std=gnu17 -Wall -Werror '$place/example.c' -o '$place/shared' $(pkg-config --cflags --libs virgate)"
check "it needs the library by its name" sh -c "readelf -d '$place/shared' | grep -q 'NEEDED.*libvirgate.so.0'"
check "the guide's example runs" sh -c "'$place/shared'; test \$? = 2"
rm -f "$libdir"/libvirgate.so*
check "the guide's example, static" sh -c "cc -std=gnu17 -Wall -Werror '$place/example.c' -o '$place/static' $(pkg-config --cflags --static --libs virgate)"
check "it needs no library of ours" sh -c "! readelf -d '$place/static' | grep -q libvirgate"
for file in man1/virgate.1 man1/virgate-run.1 man8/virgated.8 man5/virgate.conf.5; do
	check "the page $file" sh -c "ls '$prefix'/share/man/$file*"
done
check "the completion" test -s "$prefix/share/bash-completion/completions/virgate"
check "the daemon" test -x "$prefix/bin/virgated"
check "the unit" sh -c "find '$root' -name virgated.service | grep -q ."
for file in libvirgate-cuda.so libvirgate-nvml.so sim/libcuda.so.1 sim/libnvidia-ml.so.1; do
	check "the library $file" test -e "$libdir/virgate/$file"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
