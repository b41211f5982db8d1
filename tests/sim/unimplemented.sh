#!/bin/sh
# unimplemented.sh FILE: fails when a program of the suites reached an entry that the simulated driver lacks. FILE is
# what VIRGATE_SIM_UNIMPLEMENTED named for them; it is removed, so that the next run starts with none.
set -u
[ -s "$1" ] || exit 0
echo "entries that the simulated driver lacks were reached (docs/simulator-coverage.md lists them):"
sort "$1" | uniq -c
rm -f "$1"
exit 1
