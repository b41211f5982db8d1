#!/bin/sh
# archive.sh OUTPUT RUNTIME_DEF OBJECT…: makes libcudart_static.a. Its only object makes no names global except the
# exported ones.
set -eu
output=$1
list=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ld -r -o "$work/all.o" "$@"
sed -n 's/^[A-Z]*(\([A-Za-z_0-9]*\), .*/\1/p' "$list" >"$work/names"
objcopy --keep-global-symbols="$work/names" "$work/all.o" "$work/cudart.o"
rm -f "$output"
ar rcD "$output" "$work/cudart.o"
