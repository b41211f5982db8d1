#!/bin/sh
# record.sh BUILD [FILE]: records the corpus's outputs on this machine's GPU. Runs twice, because outputs that differ
# between two runs on one GPU cannot be recorded.
set -eu
build=${1:?usage: record.sh BUILD-FOLDER [FILE]}
here=$(cd "$(dirname "$0")" && pwd)
file=${2:-$here/expected.txt}
unset VIRGATE_SIM
status=0
"$build/tests/corpus/corpus" --ptx "$build/tests/corpus" --record "$file.new" || status=1
"$build/tests/corpus/corpus" --ptx "$build/tests/corpus" --compare "$file.new" || status=1
mv "$file.new" "$file"
[ $status = 0 ] || echo "some cases failed: they are not in the record"
echo "recorded in $file: $(head -n 1 "$file")"
exit $status
