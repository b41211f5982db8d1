#!/bin/bash
# test_scripts.sh ROOT CUDA: tests the scripts that install packages, configure the build, and count tests.
set -uo pipefail
root=$1 cuda=$2
work=$(mktemp -d /tmp/virgate-test-XXXXXX)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 comma=

# expect NAME STATUS TEXT COMMAND…: checks that the command exits with STATUS, and prints at most one line, with TEXT.
expect() {
	local name=$1 status=$2 text=$3 output ended
	shift 3
	output=$("$@" 2>&1)
	ended=$?
	if [[ $ended == "$status" && $output == *"$text"* && $(wc -l <<<"$output") -le 1 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAIL %s: exit status %s, output:\n%s\n' "$name" "$ended" "$output"
	fi
}

# The directory of tools that install-deps finds. Some are the machine's tools, and others are stand-ins.
mkdir "$work/bin"
for tool in sh grep tail; do
	ln -s "$(command -v $tool)" "$work/bin/$tool"
done
tool() { # NAME LINES…
	printf '%s\n' '#!/bin/sh' "${@:2}" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}
install_deps() {
	CUDA=${1:-$cuda} PATH=$work/bin "$root/scripts/install-deps"
}
tool dpkg-query 'echo install ok installed'
tool id 'echo 0'

expect "nothing to install" 0 "" install_deps
expect "no toolkit" 1 "no CUDA toolkit at $work/none: install the package cuda-toolkit-13-0" install_deps "$work/none"
expect "no toolkit wanted" 0 "" install_deps none
mkdir -p "$work/cuda/include" "$work/cuda/bin"
echo '#define CUDA_VERSION 12080' >"$work/cuda/include/cuda.h"
expect "an old toolkit" 1 "is older than 13.0: install the package cuda-toolkit-13-0" install_deps "$work/cuda"
echo '#define CUDA_VERSION 13010' >"$work/cuda/include/cuda.h"
expect "no nvcc" 1 "no nvcc in $work/cuda/bin: install the package cuda-nvcc-13-0" install_deps "$work/cuda"
tool dpkg-query 'case $* in *scdoc* | *libinih-dev*) exit 1 ;; esac' 'echo install ok installed'
expect "no apt-get" 1 "these packages are missing, by their Debian names: scdoc libinih-dev" install_deps
tool apt-get "echo \$* >>'$work/asked'"
expect "packages are installed" 0 "installing: scdoc libinih-dev" install_deps
expect "apt-get asks nothing" 0 "install -y -qq scdoc libinih-dev" cat "$work/asked"
tool id 'echo 1000'
expect "neither root nor sudo" 1 "as root, run: apt-get install scdoc libinih-dev" install_deps
tool sudo 'exec "$@"'
expect "sudo" 0 "installing: scdoc libinih-dev" install_deps
tool apt-get 'echo "E: Unable to locate package scdoc" >&2' 'exit 100'
expect "apt-get fails" 1 "could not install scdoc libinih-dev: E: Unable to locate package scdoc" \
	eval 'install_deps 2>&1 >/dev/null'
tool dpkg-query 'case $* in *slurmd*) exit 1 ;; esac' 'echo install ok installed'
tool apt-get 'echo "E: Unable to locate package slurmd" >&2' 'exit 100'
expect "an optional package cannot be installed" 0 "E: Unable to locate package slurmd|tests that need these" \
	eval 'OPTIONAL="slurmd munge" install_deps 2>&1 >/dev/null | tr "\n" "|"'
expect "an optional package does not make the script fail" 0 "" eval 'OPTIONAL=slurmd install_deps >/dev/null 2>&1'
tool apt-get "echo \$* >>'$work/asked'"
expect "an optional package is installed" 0 "installing: slurmd" eval 'OPTIONAL="slurmd munge" install_deps'

# The stand-in for ldconfig lists the library only from its second call on. That simulates the linker's cache before and
# after an installation.
for tool in sed touch; do
	ln -s "$(command -v $tool)" "$work/bin/$tool"
done
mkdir "$work/lib"
touch "$work/lib/libvirgate.so.1"
tool ldconfig "[ \$# -gt 0 ] || exec touch '$work/ran'" \
	"[ ! -e '$work/ran' ] || echo '	libvirgate.so.1 (libc6,x86-64) => $work/lib/libvirgate.so.1'"
after_install() {
	PATH=$work/bin "$root/scripts/after-install" "$work/lib"
}
DESTDIR=$work/stage expect "a staged installation leaves the linker's cache alone" 0 "" after_install
expect "ldconfig did not run for a staged installation" 1 "" test -e "$work/ran"
tool id 'echo 1000'
expect "an installation by a user says that root must run ldconfig" 0 \
	"does not find libvirgate.so.1 in $work/lib: as root," after_install
expect "ldconfig did not run for a user" 1 "" test -e "$work/ran"
tool id 'echo 0'
expect "root's installation refreshes the linker's cache" 0 "" after_install
expect "ldconfig ran for root" 0 "" test -e "$work/ran"
expect "root's installation prints nothing" 1 "" grep . <(after_install)

# These tests run meson directly, without make.
setup() {
	(
		unset PKG_CONFIG_PATH
		env "${@:2}" meson setup "$work/$1" "$root" "-Dcuda=${setup_cuda:-$cuda}"
	) | grep -o 'ERROR.*'
	return "${PIPESTATUS[0]}"
}
expect "meson without a package" 1 "no jansson: install the package libjansson-dev" \
	setup package PKG_CONFIG_LIBDIR="$work/none"
setup_cuda=$work/none
expect "meson without the toolkit that was named" 1 "no CUDA toolkit at $work/none: install" setup toolkit
setup_cuda=$work/cuda
expect "meson without nvcc" 1 "install the package cuda-nvcc-13-0" setup nvcc

# These tests run scripts/configure several times, with the same or other options.
tool meson "echo \$* >>'$work/setups'"
ln -s "$(command -v cat)" "$work/bin/cat"
mkdir "$work/build"
configure() {
	PATH=$work/bin "$root/scripts/configure" "$work/build" "$@" && : >"$work/build/build.ninja"
}
expect "a first setup" 0 "" configure -Dcuda=/one
expect "again, the same" 0 "" configure -Dcuda=/one
expect "again, another toolkit" 0 "" configure -Dcuda=/two
expect "set up twice" 0 2 grep -c . "$work/setups"
expect "reconfigured the second time" 0 "setup --reconfigure $work/build -Dcuda=/two" tail -n 1 "$work/setups"

# scripts/check must add up the counts of meson's tests.
mkdir -p "$work/checking/meson-info" "$work/checking/meson-logs"
echo '[{"name": "b_sanitize", "value": "none"}]' >"$work/checking/meson-info/intro-buildoptions.json"
check() { # STATUS LINES…: runs scripts/check; meson exits with STATUS and has LINES in its log
	tool meson "cat >'$work/checking/meson-logs/testlog.json' <<'END'" "${@:2}" END "exit $1"
	PATH=$work/bin:$PATH "$root/scripts/check" "$work/checking" ${may_skip-} | tail -n "${last:-1}" | tr '\n' '|'
	return "${PIPESTATUS[0]}"
}
counted='{"name": "a", "result": "OK", "stdout": "skip y: no NVRTC: none\n8 passed, 0 failed, 1 skipped\n"}'
whole='{"name": "b", "result": "SKIP", "stdout": "skip b: needs nvcc\n"}'
expect "tests add up" 0 "9 passed, 0 failed, 2 skipped|" check 0 "$counted" \
	'{"name": "c", "result": "OK", "stdout": ""}' \
	'{"name": "d", "result": "SKIP", "stdout": "no GPU"}'
last=2 expect "tests that need a toolkit are counted" 0 \
	"2 of 10 tests were skipped without a CUDA toolkit (20.0 %)|8 passed, 0 failed, 2 skipped|" \
	check 0 "$counted" "$whole"
last=9 expect "each reason is printed once" 0 "a: skip y: no NVRTC: none|b: skip b: needs nvcc|2 of" \
	check 0 "$counted" "$whole"
expect "a test that reached its time limit" 1 "8 passed, 1 failed, 1 skipped|" check 1 "$counted" \
	'{"name": "e", "result": "TIMEOUT", "stdout": ""}'
expect "no test" 1 "0 passed, 0 failed, 0 skipped|" check 0
expect "only skipped tests" 1 "0 passed, 0 failed, 1 skipped|" check 0 "$whole"
may_skip=--may-skip
expect "only tests that may be skipped" 0 "0 passed, 0 failed, 1 skipped|" check 0 "$whole"
expect "no test that may be skipped" 1 "0 passed, 0 failed, 0 skipped|" check 0
expect "a failure among tests that may be skipped" 1 "0 passed, 1 failed, 1 skipped|" check 1 "$whole" \
	'{"name": "f", "result": "FAIL", "stdout": ""}'
unset may_skip
# check_again AGAIN LINE: runs scripts/check with a stand-in for meson. In its first run, meson has LINE in its log. In
# its second run, it has AGAIN in its log, and exits with 0.
check_again() {
	tool meson "case \$* in *testlog-again*) log=testlog-again ;; *) log=testlog ;; esac" \
		"echo \"\$*\" >>'$work/checking/runs'" \
		"case \$log in testlog) cat ;; *) cat >/dev/null; printf '%s\\n' '$1' ;; esac \
		>'$work/checking/meson-logs/'\$log.json <<'END'" "$2" END "[ \$log = testlog-again ]"
	rm -f "$work/checking/runs"
	PATH=$work/bin:$PATH "$root/scripts/check" "$work/checking" | tail -n "${last:-1}" | tr '\n' '|'
	return "${PIPESTATUS[0]}"
}
slow='{"name": "s / e", "result": "FAIL", "stdout": "FAIL f: 2 is 3\n1 passed, 1 failed, 0 skipped\n"}'
last=2 expect "a test that passes alone" 0 \
	"s / e: repeated alone (OK), at first: FAIL f: 2 is 3|2 passed, 0 failed, 0 skipped|" \
	check_again '{"name": "s / e", "result": "OK", "stdout": "2 passed, 0 failed, 0 skipped\n"}' "$slow"
expect "it is repeated alone" 0 "--num-processes 1 e" tail -n 1 "$work/checking/runs"
expect "a test that fails again" 1 "1 passed, 1 failed, 0 skipped|" check_again "$slow" "$slow"
expect "a sanitizer's report is not repeated" 1 "0 passed, 1 failed, 0 skipped|" check_again \
	'{"name": "e", "result": "OK", "stdout": "2 passed, 0 failed, 0 skipped\n"}' \
	'{"name": "e", "result": "FAIL", "stdout": "", "stderr": "WARNING: ThreadSanitizer: data race"}'

# scripts/stages must add up the counts of its commands.
sums() {
	"$root/scripts/stages" "$@" | tail -n 1
	return "${PIPESTATUS[0]}"
}
expect "stages add up" 0 "3 passed, 0 failed, 3 skipped" sums \
	a='echo "1 passed, 0 failed, 2 skipped"' b='echo "2 passed, 0 failed, 1 skipped"'
expect "a stage that failed" 1 "1 passed, 1 failed, 0 skipped" sums a='echo "1 passed, 0 failed, 0 skipped"' b=false
expect "a stage that failed after its tests passed" 1 "2 passed, 1 failed, 0 skipped" sums \
	a='echo "2 passed, 0 failed, 0 skipped"; exit 3'
expect "a stage without a count" 1 "0 passed, 1 failed, 0 skipped" sums a=true
mkfifo "$work/prepared"
expect "a stage is prepared beside the stage before" 0 "3 passed, 0 failed, 0 skipped" sums \
	a="cat '$work/prepared'" \
	--ahead b="echo '1 passed, 0 failed, 0 skipped' >'$work/prepared'; echo ready >'$work/ready'" \
	b="grep -q ready '$work/ready' && echo '2 passed, 0 failed, 0 skipped'"
expect "a preparation that fails fails no stage" 0 "2 passed, 0 failed, 0 skipped" sums \
	a='echo "1 passed, 0 failed, 0 skipped"' --ahead b='echo "9 passed, 9 failed, 0 skipped"; exit 1' \
	b='echo "1 passed, 0 failed, 0 skipped"'

# scripts/fuzz must tell each fuzzer how long to run, and must report a fuzzer that fails.
mkdir -p "$work/fuzzing/tests/fuzz"
fuzz() {
	(cd "$root" && PATH=$work/bin:$PATH scripts/fuzz "$work/fuzzing" 7 2>&1 | tail -n 1; exit "${PIPESTATUS[0]}")
}
expect "no fuzz target" 1 "no fuzz target was built" fuzz
printf '%s\n' '#!/bin/sh' \
	'case $* in -max_total_time=7\ *) echo stat::number_of_executed_units: 7 ;; *) exit 1 ;; esac' \
	>"$work/fuzzing/tests/fuzz/fuzz_good"
chmod +x "$work/fuzzing/tests/fuzz/fuzz_good"
expect "a fuzzer that finds nothing" 0 "1 passed, 0 failed, 0 skipped" fuzz
printf '%s\n' '#!/bin/sh' 'exit 77' >"$work/fuzzing/tests/fuzz/fuzz_poor"
chmod +x "$work/fuzzing/tests/fuzz/fuzz_poor"
expect "a fuzzer that finds a failure" 1 "fuzz_poor found a failure: its input is $work/fuzzing/fuzz_poor-" fuzz

# scripts/reuse copies device code from another build if that code is current. The stand-in for a compiler writes
# "compiled", so the test sees which code was copied.
mkdir -p "$work/other" "$work/own"
echo compile >"$work/kernel.cu"
reuse() { # [INPUT]
	rm -f "$work/own/kernel.ptx"
	(cd "$work/own" && "$root/scripts/reuse" "$work/other" "$work/bin/compile" "${1-../kernel.cu}" -o kernel.ptx) &&
		cat "$work/own/kernel.ptx"
}
tool compile 'echo compiled >"$3"'
expect "no device code to reuse" 0 compiled reuse
echo reused >"$work/other/kernel.ptx"
touch -d '1 hour ago' "$work/kernel.cu" "$work/bin/compile"
expect "current device code" 0 reused reuse
touch -d '1 hour' "$work/kernel.cu"
expect "device code older than its source" 0 compiled reuse
touch -d '1 hour' "$work/bin/compile"
touch -d '1 hour ago' "$work/kernel.cu"
expect "device code older than its compiler" 0 compiled reuse
touch -d '1 hour ago' "$work/bin/compile"
touch -d '2 hours' "$work/own/made.ptx"
touch -d '1 hour ago' "$work/other/made.ptx"
expect "a generated input" 0 reused reuse made.ptx
touch -d '2 hours' "$work/other/made.ptx"
expect "a newer generated input" 0 compiled reuse made.ptx
touch -d '1 hour ago' "$work/other/made.ptx"
# newer_file NAME FILE: checks that the device code counts as current, and does not any more after FILE was changed.
newer_file() {
	touch -d '2 hours ago' "$work"/*.cu "$work"/*.ptx "$work"/*.h "$work"/include/*
	expect "$1: all files are older" 0 reused reuse
	touch -d '1 hour' "$2"
	expect "$1" 0 compiled reuse
	touch -d '2 hours ago' "$2"
}
mkdir "$work/include"
printf '%s\n' '#include "first.h"' '# include <third.h>' '#include <stdio.h>' >"$work/kernel.cu"
echo '#include "include/second.h"' >"$work/first.h"
echo '#include "../first.h"' >"$work/include/second.h" # a cycle
echo >"$work/include/third.h"
echo >"$work/kernel.ptx"
echo >"$work/list.h"
reuse() {
	rm -f "$work/own/kernel.ptx"
	(cd "$work/own" && "$root/scripts/reuse" "$work/other" "$work/list.h" -- "$work/bin/compile" ../kernel.cu \
		-o kernel.ptx -I "$work/include") && cat "$work/own/kernel.ptx"
}
newer_file "a header is newer" "$work/first.h"
newer_file "a header of a header is newer" "$work/include/second.h"
newer_file "a header in a directory of -I is newer" "$work/include/third.h"
newer_file "the committed PTX is newer" "$work/kernel.ptx"
newer_file "a further file is newer" "$work/list.h"
rm "$work/kernel.ptx"
tool compile 'echo no such kernel; exit 3'
expect "a compiler that fails" 3 "no such kernel" reuse

# scripts/sanitized-tests must leave out tests in which a sanitizer cannot find errors.
mkdir -p "$work/sanitized/meson-info"
compile() { # PROGRAM [OPTION…]
	gcc -w -x c -o "$work/$1" - "${@:2}"
}
echo 'int pthread_create(); int main(void) { return pthread_create(); }' | compile threads
echo 'int main(void) { return 0; }' | compile plain
echo 'int main(void) { return 0; }' | compile linked "-Wl,-rpath,$work"
printf '#!/bin/sh\n' >"$work/script"
cat >"$work/sanitized/meson-info/intro-targets.json" <<'END'
[{"id": "own", "type": "executable", "filename": ["/b/own"]},
	{"id": "library", "type": "shared library", "filename": ["/b/library"]},
	{"id": "text", "type": "custom", "filename": ["/b/text"]}]
END
sed -i "s|/b/|$work/sanitized/|" "$work/sanitized/meson-info/intro-targets.json"
{
	printf '['
	while read -r name program depends env; do
		printf '%s{"name": "%s", "cmd": ["%s"], "depends": [%s], "env": {%s}, "suite": ["v:%s"]}' \
			"$comma" "$name" "$work/$program" "$depends" "$env" "$program"
		comma=,
	done <<'END'
threads threads "own"
plain plain "own"
starts-others plain "own","library"
linked linked "own"
preloaded plain "own" "LD_PRELOAD": "x"
script script "own"
text text "text"
nothing script
vram-hash threads "own"
manager-move threads "own"
END
	printf ']'
} >"$work/sanitized/meson-info/intro-tests.json"
sanitized() {
	echo "[{\"name\": \"b_sanitize\", \"value\": \"$1\"}]" \
		>"$work/sanitized/meson-info/intro-buildoptions.json"
	"$root/scripts/sanitized-tests" "$work/sanitized" | tr '\n' '|'
	return "${PIPESTATUS[0]}"
}
expect "tests for the address sanitizer" 0 \
	"threads|plain|starts-others|linked|preloaded|script|vram-hash|" sanitized address
expect "tests for the thread sanitizer" 0 \
	"threads|starts-others|linked|preloaded|script|manager-move|" sanitized thread
expect "what the tests of two suites need" 0 "own|text|" eval \
	'"$root/scripts/sanitized-tests" "$work/sanitized" --targets threads text | tr "\n" "|"'
rm "$work/plain"
expect "a program that was not built" 1 "" eval 'sanitized thread 2>/dev/null'
sed -i 's/"linked", "cmd"/"script", "cmd"/' "$work/sanitized/meson-info/intro-tests.json"
expect "two tests with one name" 1 "several tests have the name script" eval 'sanitized address 2>&1'

echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 ]]
