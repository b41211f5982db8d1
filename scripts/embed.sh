#!/bin/sh
# embed.sh FILE NAME: prints FILE as a zero-terminated C array called NAME.
set -eu
printf '// Made from %s by embed.sh.\n#pragma once\n\nstatic const unsigned char %s[] = {\n' "$(basename "$1")" "$2"
od -An -v -tu1 "$1" | sed 's/  *\([0-9][0-9]*\)/\1,/g'
printf '0};\n'
