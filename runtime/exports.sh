#!/bin/sh
# exports.sh RUNTIME_DEF: writes the version script of libcudart.so.13.
echo 'libcudart.so.13 {'
echo '	global:'
sed -n 's/^[A-Z]*(\([A-Za-z_0-9]*\), .*/\t\t\1;/p' "$1"
echo '	local: *;'
echo '};'
