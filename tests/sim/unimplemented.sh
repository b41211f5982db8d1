#!/bin/sh
# unimplemented.sh FILE: fails if a test program called a function that the simulated driver lacks. The programs write
# the names of such functions to FILE (VIRGATE_SIM_UNIMPLEMENTED). Removes FILE, so that the next run starts without it.
set -u
[ -s "$1" ] || exit 0
echo "entries that the simulated driver lacks were reached (docs/simulator-coverage.md lists them):"
sort "$1" | uniq -c
rm -f "$1"
exit 1
