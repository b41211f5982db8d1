#!/bin/sh
# test_exports.sh SOURCE LIBRARY ARCHIVE CUDA: checks that four lists of names agree: runtime.def, our library, our
# archive, and the toolkit's libcudart.so.13 if it is of CUDA 13.0. Also checks that docs/runtime.md has the table of
# runtime.def.
set -u
source=$1 list=$1/runtime/runtime.def ours=$2 archive=$3 cuda=$4
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compare() { # WHAT NAMES
	if diff "$work/list" "$2" >"$work/difference"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1 (<: only in the list)"
		cat "$work/difference"
	fi
}

sed -n 's/^[A-Z]*(\([A-Za-z_0-9]*\), .*/\1/p' "$list" | sort >"$work/list"
sort -u "$work/list" >"$work/unique"
compare "a name stands twice in the list" "$work/unique"
versioned() { nm -D --defined-only "$1" | sed -n 's/.* [TW] \([^@]*\)@@libcudart\.so\.13$/\1/p' | sort; }
versioned "$ours" >"$work/ours"
compare "our library" "$work/ours"
nm -g --defined-only "$archive" | sed -n 's/.* [TW] //p' | sort >"$work/archive"
compare "our archive" "$work/archive"
if readelf -d "$ours" | grep -q 'SONAME.*\[libcudart\.so\.13\]'; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL the name of our library is not libcudart.so.13"
fi
if [ -e "$cuda/lib64/libcudart.so.13" ] &&
	grep -q '^#define CUDART_VERSION *13000$' "$cuda/include/cuda_runtime_api.h"; then
	versioned "$cuda/lib64/libcudart.so.13" >"$work/theirs"
	compare "the toolkit's library" "$work/theirs"
else
	skipped=1
	echo "skip the toolkit's library: no libcudart.so.13 of CUDA 13.0 (toolkit: $cuda)"
fi
"$source/runtime/table.sh" "$list" >"$work/table"
if sed -n '/^| function | reason |$/,$p' "$source/docs/runtime.md" | cmp - "$work/table"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL the table of docs/runtime.md is not what runtime/table.sh prints"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
