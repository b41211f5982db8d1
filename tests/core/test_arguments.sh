#!/bin/sh
# test_arguments.sh INCLUDE SOURCE: checks that arguments.c works as C11 and as C++17 with every installed compiler, and
# that wrong statements do not compile. Also uses the address sanitizer, which finds values that are used after their
# lifetime.
set -u
include=$1 source=$2
directory=$(mktemp -d) || exit 1
trap 'rm -rf "$directory"' EXIT
passed=0 failed=0

ok() {
	passed=$((passed + 1))
}

bad() {
	echo "FAIL $*"
	failed=$((failed + 1))
}

# refused NUMBER WORDS COMPILER...: checks that the statement does not compile, with an error that contains the words.
refused() {
	number=$1 words=$2
	shift 2
	if "$@" -D "REFUSED=$number" -fsyntax-only "$source" 2>"$directory/words"; then
		bad "$*: compiled statement $number"
	elif grep -q -e "$words" "$directory/words"; then
		ok
	else
		bad "$*: $(cat "$directory/words")"
	fi
}

for compiler in "cc -x c -std=c11" "c++ -x c++ -std=c++17" "clang -x c -std=c11" "clang++ -x c++ -std=c++17"; do
	command -v "${compiler%% *}" >/dev/null || continue
	set -- $compiler -Wall -Wextra -pedantic -Werror -I "$include"
	for options in -O0 -O2 "-O1 -fsanitize=address -fsanitize-address-use-after-scope"; do
		# the runtime of clang's sanitizers is in another package
		case $compiler$options in clang*sanitize*) continue ;; esac
		if "$@" $options "$source" -o "$directory/arguments" && "$directory/arguments"; then
			ok
		else
			bad "$compiler $options"
		fi
	done
	case $compiler in
	*c++17) refused 1 "VG_ARGUMENT of a temporary value" "$@" ;;
	esac
	refused 2 "lvalue\|rvalue\|address of" "$@"
	case $compiler in
	clang++*) refused 3 "destroyed at the end of the full-expression" "$@" ;;
	esac
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
