#!/bin/sh
# embed.sh FILE NAME [gzip]: prints FILE, compressed if asked, as a zero-terminated C array called NAME.
set -eu
printf '// Made from %s by embed.sh.\n#pragma once\n\nstatic const unsigned char %s[] = {\n' "$(basename "$1")" "$2"
if [ "${3-}" = gzip ]; then gzip -9 -n -c "$1"; else cat "$1"; fi | od -An -v -tu1 | sed 's/  *\([0-9][0-9]*\)/\1,/g'
printf '0};\n'
