#!/bin/sh
# Checks that the interposers need only the libraries of libc (three files before glibc 2.34), and export nothing but
# the driver's names. They must also need no glibc newer than 2.31 (2.34 with a sanitizer), unless the glibc of the
# build is newer than 2.37.
set -u
export LC_ALL=C
command -v readelf >/dev/null && command -v nm >/dev/null || { echo "needs readelf and nm (binutils)"; exit 77; }
failed=0
fail() { echo "FAIL $1: $2"; failed=1; }
for library; do
	case "$library" in
	*nvml*) soname=libnvidia-ml.so.1 pattern='^nvml' ;;
	*) soname=libcuda.so.1 pattern='^cu\|^dlopen$' ;;
	esac
	needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -v -e '^lib\(c\.so\.6\|pthread\.so\.0\|dl\.so\.2\)$' \
			-e '^ld-linux-x86-64\.so\.2$' -e 'lib[atu]*san\.so')
	[ -z "$needed" ] || fail "$library" "links with $needed"
	readelf -d "$library" | grep -q "(SONAME).*\[$soname\]" || fail "$library" "its SONAME is not $soname"
	others=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v "$pattern")
	[ -z "$others" ] || fail "$library" "exports $others"
	readelf -lW "$library" | grep -q 'GNU_STACK.*RWE' && fail "$library" "asks for an executable stack"
	# The headers of a newer C library name newer symbols.
	case $(getconf GNU_LIBC_VERSION) in
	glibc\ 2.3[0-7]) ;;
	*) continue ;;
	esac
	newest=31
	readelf -d "$library" | grep -q '\[libdl\.so\.2\]' || newest=34
	newer=$(nm -D --undefined-only "$library" | sed -n 's/.*@GLIBC_\(2\.[0-9.]*\).*/\1/p' |
		awk -F. -v newest=$newest '$2 > newest {print "2." $2}' | sort -u)
	[ -z "$newer" ] || fail "$library" "needs glibc $newer"
done
[ $failed = 0 ] && echo "ok linkage"
exit $failed
