#!/bin/bash
# test_rooms.sh ROOT BUILD: every directory that holds sources has a README of at most ten lines (those of docs/ and
# examples/ are lists and may be longer). The files that a README names exist; build/ is BUILD. The rooms after
# "May include:" in the READMEs of src/, shim/, runtime/ and daemon/ are exactly those that the room includes.
set -uo pipefail
passed=0 failed=0
build=$(realpath "$2")
cd "$1" || exit 1

fail() {
	echo "FAIL $1"
	failed=$((failed + 1))
}

missing_files() { # DIRECTORY: a name (NAME is any) is a file here, below src/ or include/, or in the source tree
	# shellcheck disable=SC2016
	grep -o '`[^` ]*\.\(c\|h\|S\|cu\|def\|inc\|py\|sh\|txt\|md\)`' "$1/README.md" | tr -d '`' | sed 's/NAME/*/' | sort -u |
		while read -r name; do
			compgen -G "$1/$name" || compgen -G "src/$name" || compgen -G "include/$name" ||
				compgen -G "$name" || compgen -G "${name/#build\//$build/}" || echo "MISSING $name"
		done | sed -n 's/^MISSING //p' | tr '\n' ' '
}

rooms=$(cd src && echo */ | tr -d /)
as_rooms() { # Prints the rooms among the words of the standard input.
	grep -oE '[a-z]+' | grep -xF "$(tr ' ' '\n' <<<"$rooms")" | sort -u | tr '\n' ' '
}
allowed_rooms() { # DIRECTORY
	tr '\n' ' ' <"$1/README.md" | grep -o 'May include: [^.;]*' | sed 's/May include://' | as_rooms
}
included_rooms() { # DIRECTORY
	find "$1" -name '*.[chS]' -exec sed -n 's/^ *# *include "\([a-z]*\)\/.*/\1/p' {} + |
		grep -vx "$(basename "$1")" | as_rooms
}

while read -r directory; do
	missing='' allowed='' included=''
	if [[ ! -e $directory/README.md ]]; then
		fail "$directory has no README.md"
		continue
	fi
	if [[ $directory != docs && $directory != examples ]] && (($(wc -l <"$directory/README.md") > 10)); then
		fail "$directory/README.md has more than 10 lines"
	fi
	missing=$(missing_files "$directory")
	if [[ $directory =~ ^(src/[a-z]+|shim|runtime|daemon)$ ]]; then
		allowed=$(allowed_rooms "$directory") included=$(included_rooms "$directory")
	fi
	if [[ $missing ]]; then
		fail "$directory/README.md names files that do not exist: $missing"
	elif [[ $allowed != "$included" ]]; then
		fail "$directory/README.md allows other rooms ($allowed) than the sources include ($included)"
	else
		passed=$((passed + 1))
	fi
done < <(find docs scripts include src sim shim runtime daemon cli examples tests bench man -type f -printf '%h %f\n' |
	grep -E '\.(c|h|S|py|sh|cu|scd|md)$|^scripts ' | grep -vE ' README.md$' | cut -d' ' -f1 | sort -u |
	grep -vE '^tests$|/__pycache__')
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 && $passed -gt 0 ]]
