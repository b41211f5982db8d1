#!/bin/bash
# test_rooms.sh ROOT BUILD: checks that every directory with sources has a README of at most ten lines, not counting its
# lists. Every file that a README names must exist: in the directory, below src/, include/ or ROOT, or as build/… in
# BUILD. The READMEs of docs/ and examples/ are lists, and may be longer.
set -uo pipefail
passed=0 failed=0
build=$(realpath "$2")
cd "$1" || exit 1

fail() {
	echo "FAIL $1"
	failed=$((failed + 1))
}

# find_missing_files DIRECTORY: prints the files that its README names and that do not exist. In a README, NAME in the
# name of a file stands for any text.
find_missing_files() {
	# shellcheck disable=SC2016
	grep -o '`[^` ]*\.\(c\|h\|S\|cu\|def\|inc\|py\|sh\|txt\|md\)`' "$1/README.md" |
		tr -d '`' | sed 's/NAME/*/' | sort -u |
		while read -r name; do
			compgen -G "$1/$name" || compgen -G "src/$name" || compgen -G "include/$name" ||
				compgen -G "$name" || compgen -G "${name/#build\//$build/}" || echo "MISSING $name"
		done | sed -n 's/^MISSING //p' | tr '\n' ' '
}

while read -r directory; do
	if [[ ! -e $directory/README.md ]]; then
		fail "$directory has no README.md"
		continue
	fi
	lines=$(grep -vcE '^(- |  |$)' "$directory/README.md")
	if [[ $directory != docs && $directory != examples ]] && ((lines > 10)); then
		fail "$directory/README.md has more than 10 lines besides its lists"
	fi
	missing=$(find_missing_files "$directory")
	if [[ $missing ]]; then
		fail "$directory/README.md names files that do not exist: $missing"
	else
		passed=$((passed + 1))
	fi
done < <(find docs scripts include src sim shim runtime daemon exporter top cli integrations examples tests bench man \
	-type f -printf '%h %f\n' |
	grep -E '\.(c|h|S|py|sh|cu|scd|md)$|^scripts ' | grep -vE ' README.md$' | cut -d' ' -f1 | sort -u |
	grep -vE '^tests$|/__pycache__')
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 && $passed -gt 0 ]]
