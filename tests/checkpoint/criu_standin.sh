#!/bin/sh
# Replaces CRIU: writes its arguments to $STANDIN/said, stops the process for "dump", and fails if $STANDIN/fail names
# the verb. "restore" creates no process. But if the file $STANDIN/again has a pid, it creates an idle process with it.
# With "no-pstree" in $STANDIN/fail, a dump succeeds but lacks the file pstree.img; with "empty-pstree", that file is
# empty.
say() { echo "$*" >>"$STANDIN/said"; }
verb=$1
folder= work= pid=
case $verb in
--version)
	echo "Version: $(cat "$STANDIN/version" 2>/dev/null || echo 4.2)"
	exit 0
	;;
esac
while [ $# -gt 0 ]; do
	case $1 in
	-D) folder=$2 ;;
	-W) work=$2 ;;
	-t) pid=$2 ;;
	esac
	shift
done
say "$verb $pid"
if grep -qx "$verb" "$STANDIN/fail" 2>/dev/null; then
	echo "(00.001) Error (standin.c:1): told to fail" >"$work/$verb.log"
	exit 1
fi
if grep -qx slow "$STANDIN/fail" 2>/dev/null; then # wait until the test removes "slow" from the file
	: >"$STANDIN/slow"
	while [ -e "$STANDIN/slow" ]; do sleep 0.01; done
fi
case $verb in
dump)
	if ! kill -STOP "$pid"; then
		echo "(00.001) Error (standin.c:2): no process $pid" >"$work/$verb.log"
		exit 1
	fi
	grep -qx kill-starter "$STANDIN/fail" 2>/dev/null && kill -KILL $PPID
	head -c 100000 /dev/zero >"$folder/pages-1.img"
	for name in "core-$pid" pstree inventory; do
		grep -qx "no-${name%-*}" "$STANDIN/fail" 2>/dev/null && continue
		: >"$folder/$name.img"
		grep -qx "empty-${name%-*}" "$STANDIN/fail" 2>/dev/null || echo "$name" >"$folder/$name.img"
	done
	;;
restore)
	[ -e "$STANDIN/again" ] && exec "$AGAIN" "$(cat "$STANDIN/again")"
	;;
esac
