#!/bin/bash
# test_scripts.sh ROOT CUDA: what is missing is named in one line that says what to install; options
# named later are taken; counts add up.
set -uo pipefail
root=$1 cuda=$2
place=$(mktemp -d /tmp/virgate-test-XXXXXX)
trap 'rm -rf "$place"' EXIT
passed=0 failed=0

# expect WHAT STATUS TEXT COMMAND…: the command ends with that status, and its one line has that text.
expect() {
	local what=$1 status=$2 text=$3 output ended
	shift 3
	output=$("$@" 2>&1)
	ended=$?
	if [[ $ended == "$status" && $output == *"$text"* && $(wc -l <<<"$output") -le 1 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s: ended with %s and said:\n%s\n' "$what" "$ended" "$output"
	fi
}

# The tools that install-deps finds: real ones, and those of the test.
mkdir "$place/bin"
for tool in sh grep tail; do
	ln -s "$(command -v $tool)" "$place/bin/$tool"
done
tool() { # NAME LINES…
	printf '%s\n' '#!/bin/sh' "${@:2}" >"$place/bin/$1"
	chmod +x "$place/bin/$1"
}
install_deps() {
	CUDA=${1:-$cuda} PATH=$place/bin "$root/scripts/install-deps"
}
tool dpkg-query 'echo install ok installed'
tool id 'echo 0'

expect "nothing to install" 0 "" install_deps
expect "no toolkit" 1 "no CUDA toolkit at $place/none: install the package cuda-toolkit-13-0" install_deps "$place/none"
expect "no toolkit wanted" 0 "" install_deps none
mkdir -p "$place/cuda/include" "$place/cuda/bin"
echo '#define CUDA_VERSION 12080' >"$place/cuda/include/cuda.h"
expect "an old toolkit" 1 "is older than 13.0: install the package cuda-toolkit-13-0" install_deps "$place/cuda"
echo '#define CUDA_VERSION 13010' >"$place/cuda/include/cuda.h"
expect "no nvcc" 1 "no nvcc in $place/cuda/bin: install the package cuda-nvcc-13-0" install_deps "$place/cuda"
tool dpkg-query 'case $* in *scdoc* | *libinih-dev*) exit 1 ;; esac' 'echo install ok installed'
expect "no apt-get" 1 "these packages are missing, by their Debian names: scdoc libinih-dev" install_deps
tool apt-get "echo \$* >>'$place/asked'"
expect "packages are installed" 0 "installing: scdoc libinih-dev" install_deps
expect "by apt-get, unasked" 0 "install -y -qq scdoc libinih-dev" cat "$place/asked"
tool id 'echo 1000'
expect "neither root nor sudo" 1 "as root, run: apt-get install scdoc libinih-dev" install_deps
tool sudo 'exec "$@"'
expect "sudo" 0 "installing: scdoc libinih-dev" install_deps
tool apt-get 'echo "E: Unable to locate package scdoc" >&2' 'exit 100'
expect "packages that apt-get does not get" 1 "could not install scdoc libinih-dev: E: Unable to locate package scdoc" \
	eval 'install_deps 2>&1 >/dev/null'

# The linker's cache after an installation: the test's ldconfig knows a directory once it ran.
for tool in sed touch; do
	ln -s "$(command -v $tool)" "$place/bin/$tool"
done
mkdir "$place/lib"
touch "$place/lib/libvirgate.so.0"
tool ldconfig "[ \$# -gt 0 ] || exec touch '$place/ran'" \
	"[ ! -e '$place/ran' ] || echo '	libvirgate.so.0 (libc6,x86-64) => $place/lib/libvirgate.so.0'"
after_install() {
	PATH=$place/bin "$root/scripts/after-install" "$place/lib"
}
DESTDIR=$place/stage expect "a staged installation leaves the linker's cache alone" 0 "" after_install
expect "it did" 1 "" test -e "$place/ran"
tool id 'echo 1000'
expect "a user is told to run ldconfig" 0 "does not find libvirgate.so.0 in $place/lib: as root," after_install
expect "and ran nothing" 1 "" test -e "$place/ran"
tool id 'echo 0'
expect "root's installation refreshes the linker's cache" 0 "" after_install
expect "by ldconfig" 0 "" test -e "$place/ran"
expect "it says nothing then" 1 "" grep . <(after_install)

# meson itself, called without make.
setup() {
	(
		unset PKG_CONFIG_PATH
		env "${@:2}" meson setup "$place/$1" "$root" "-Dcuda=${setup_cuda:-$cuda}"
	) | grep -o 'ERROR.*'
	return "${PIPESTATUS[0]}"
}
expect "meson without a package" 1 "no jansson: install the package libjansson-dev" \
	setup package PKG_CONFIG_LIBDIR="$place/none"
setup_cuda=$place/none
expect "meson without the toolkit that was named" 1 "no CUDA toolkit at $place/none: install" setup toolkit
setup_cuda=$place/cuda
expect "meson without nvcc" 1 "install the package cuda-nvcc-13-0" setup nvcc

# Options named later.
tool meson "echo \$* >>'$place/setups'"
ln -s "$(command -v cat)" "$place/bin/cat"
mkdir "$place/build"
configure() {
	PATH=$place/bin "$root/scripts/configure" "$place/build" "$@" && : >"$place/build/build.ninja"
}
expect "a first setup" 0 "" configure -Dcuda=/one
expect "again, the same" 0 "" configure -Dcuda=/one
expect "again, another toolkit" 0 "" configure -Dcuda=/two
expect "set up twice" 0 2 grep -c . "$place/setups"
expect "the second time anew" 0 "setup --reconfigure $place/build -Dcuda=/two" tail -n 1 "$place/setups"

# Sums of meson's tests.
mkdir -p "$place/checking/meson-info" "$place/checking/meson-logs"
echo '[{"name": "b_sanitize", "value": "none"}]' >"$place/checking/meson-info/intro-buildoptions.json"
check() { # STATUS LINES…: what meson ends with, and its log
	tool meson "cat >'$place/checking/meson-logs/testlog.json' <<'END'" "${@:2}" END "exit $1"
	PATH=$place/bin:$PATH "$root/scripts/check" "$place/checking" | tail -n "${last:-1}" | tr '\n' '|'
	return "${PIPESTATUS[0]}"
}
counted='{"name": "a", "result": "OK", "stdout": "skip y: no NVRTC: none\n8 passed, 0 failed, 1 skipped\n"}'
whole='{"name": "b", "result": "SKIP", "stdout": "skip b: needs nvcc\n"}'
expect "tests add up" 0 "9 passed, 0 failed, 2 skipped|" check 0 "$counted" \
	'{"name": "c", "result": "OK", "stdout": ""}' \
	'{"name": "d", "result": "SKIP", "stdout": "no GPU"}'
last=2 expect "those that need a toolkit are counted" 0 \
	"2 of 10 tests were skipped without a CUDA toolkit (20.0 %)|8 passed, 0 failed, 2 skipped|" check 0 "$counted" "$whole"
last=9 expect "each reason is said once" 0 "a: skip y: no NVRTC: none|b: skip b: needs nvcc|2 of" \
	check 0 "$counted" "$whole"
expect "a test that ran out of time" 1 "8 passed, 1 failed, 1 skipped|" check 1 "$counted" \
	'{"name": "e", "result": "TIMEOUT", "stdout": ""}'
expect "no test" 1 "0 passed, 0 failed, 0 skipped|" check 0

# Sums of stages.
sums() {
	"$root/scripts/stages" "$@" | tail -n 1
	return "${PIPESTATUS[0]}"
}
expect "stages add up" 0 "3 passed, 0 failed, 3 skipped" sums \
	a='echo "1 passed, 0 failed, 2 skipped"' b='echo "2 passed, 0 failed, 1 skipped"'
expect "a stage that failed" 1 "1 passed, 1 failed, 0 skipped" sums a='echo "1 passed, 0 failed, 0 skipped"' b=false
expect "a stage that counted and failed" 1 "2 passed, 1 failed, 0 skipped" sums \
	a='echo "2 passed, 0 failed, 0 skipped"; exit 3'
expect "a stage without a count" 1 "0 passed, 1 failed, 0 skipped" sums a=true

# Fuzzers: the time reaches them, and one that fails is told.
tool ninja 'exit 0'
mkdir -p "$place/fuzzing/tests/fuzz"
fuzz() {
	(cd "$root" && PATH=$place/bin:$PATH scripts/fuzz "$place/fuzzing" 7 2>&1 | tail -n 1; exit "${PIPESTATUS[0]}")
}
expect "no fuzz target" 1 "no fuzz target was built" fuzz
printf '%s\n' '#!/bin/sh' 'case $* in -max_total_time=7\ *) echo stat::number_of_executed_units: 7 ;; *) exit 1 ;; esac' \
	>"$place/fuzzing/tests/fuzz/fuzz_good"
chmod +x "$place/fuzzing/tests/fuzz/fuzz_good"
expect "a fuzzer that holds" 0 "1 passed, 0 failed, 0 skipped" fuzz
printf '%s\n' '#!/bin/sh' 'exit 77' >"$place/fuzzing/tests/fuzz/fuzz_poor"
chmod +x "$place/fuzzing/tests/fuzz/fuzz_poor"
expect "a fuzzer that finds something" 1 "fuzz_poor found a failure: its input is $place/fuzzing/fuzz_poor-" fuzz

echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
