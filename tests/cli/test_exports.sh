#!/bin/sh
# test_exports.sh LIBRARY HEADER...: checks that the library exports exactly what the headers declare.
set -u
library=$1
shift
declared=$(cat "$@" | sed -n 's/^VG_PUBLIC [^(]*[ *]\(vg_[a-z0-9_]*\)(.*/\1/p' | sort)
exported=$(nm -D --defined-only "$library" | sed -n 's/.* [TDB] \([^@]*\).*/\1/p' | sort)
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
if [ -z "$declared" ] || [ "$declared" != "$exported" ]; then
	echo "FAIL exports: declared"; echo "$declared"; echo "exported"; echo "$exported"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
elif [ "$soname" != libvirgate.so.1 ]; then
	echo "FAIL soname: $soname"
	echo "1 passed, 1 failed, 0 skipped"
	exit 1
fi
echo "2 passed, 0 failed, 0 skipped"
