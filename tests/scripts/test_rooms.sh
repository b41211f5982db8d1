#!/bin/bash
# test_rooms.sh ROOT: every directory that holds sources has a README of at most ten lines. Only the READMEs of
# docs/ and examples/ are longer: they are lists of what is there.
set -uo pipefail
passed=0 failed=0
cd "$1" || exit 1
while read -r folder; do
	if [[ ! -e $folder/README.md ]]; then
		echo "FAIL $folder has no README.md"
	elif [[ $folder != docs && $folder != examples ]] && (($(wc -l <"$folder/README.md") > 10)); then
		echo "FAIL $folder/README.md has more than 10 lines"
	else
		passed=$((passed + 1))
		continue
	fi
	failed=$((failed + 1))
done < <(find docs scripts include src sim shim daemon cli examples tests bench man -type f -printf '%h %f\n' |
	grep -E '\.(c|h|S|py|sh|cu|scd|md)$|^scripts ' | grep -vE ' README.md$' | cut -d' ' -f1 | sort -u |
	grep -vE '^tests$|/__pycache__')
echo "$passed passed, $failed failed, 0 skipped"
[[ $failed == 0 && $passed -gt 0 ]]
