#!/bin/sh
# table.sh RUNTIME_DEF: writes the table of unsupported functions of docs/runtime.md.
echo '| function | reason |'
echo '|---|---|'
sed -n 's/^UNSUPPORTED(\([A-Za-z_0-9]*\), [a-z]*, "\(.*\)")$/| `\1` | \2 |/p' "$1"
