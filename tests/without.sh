#!/bin/sh
# without.sh TOOL FILE…: stands in for tests that need TOOL where it is missing, and counts each as skipped: every
# TEST() and CONFORM() of the files, or a file without any as one.
tool=$1
shift
skipped=0
for file in "$@"; do
	names=$(sed -n 's/^\(TEST\|CONFORM\)(\(.*\))$/\2/p' "$file")
	for name in ${names:-$(basename "$file")}; do
		echo "skip $name: needs $tool"
		skipped=$((skipped + 1))
	done
done
echo "0 passed, 0 failed, $skipped skipped"
exit 77
