#!/bin/sh
# without.sh TOOL FILE…: runs in place of tests that need TOOL, if the machine lacks it. Reports each test of the files
# as skipped. It counts every TEST() and CONFORM(), and a file without any as one test.
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
