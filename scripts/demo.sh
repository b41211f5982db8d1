#!/bin/bash
# demo.sh BUILD: runs programs in vGPUs of one GPU, or of the simulated GPU on a machine without one. First two run at
# the same time: one multiplies matrices and checks the results, the other allocates memory until it is refused. Then
# two multiply with 30 % and 70 % of the GPU's time. At the end, bars show the memory and the shares that were measured.
# The last line is the verdict. The exit code is 0 if every statement is true.
set -uo pipefail

build=$(realpath "${1:-build}")
virgate=$build/cli/virgate
place=$(mktemp -d /tmp/virgate-demo-XXXXXX)
# The demo has a node of its own, so it changes no other vGPUs.
export VIRGATE_RUNTIME_DIR=$place/run VIRGATE_STATE_DIR=$place/state VIRGATE_SIM_DIR=$place/sim
mkdir -m 700 "$VIRGATE_RUNTIME_DIR" "$VIRGATE_STATE_DIR" "$VIRGATE_SIM_DIR"
unset VIRGATE_SIM VIRGATE_MEMORY VIRGATE_SHARE VIRGATE_DEVICE VIRGATE_LOG
sim=()
failures=()

finish() {
	kill "${product:-}" "${grower:-}" "${small:-}" "${large:-}" 2>/dev/null
	"$virgate" shutdown "${sim[@]}" >/dev/null 2>&1
	rm -rf "$place"
}
trap finish EXIT

give_up() {
	printf 'FAILED: %s\n' "$*"
	exit 1
}

must() {
	printf '$ virgate %s\n' "$*"
	"$virgate" "$@" || give_up "virgate $1"
}

expect() { # STATEMENT COMMAND…: the command succeeds if the statement is true
	local what=$1
	shift
	if "$@"; then
		printf '  yes: %s\n' "$what"
	else
		printf '  NO:  %s\n' "$what"
		failures+=("$what")
	fi
}

figure() { # VGPU KEY: prints a value of the JSON of `virgate inspect`
	"$virgate" inspect "$1" --json "${sim[@]}" | sed -n "s/^    \"$2\": \([0-9]*\),*\$/\1/p"
}

multiply() { # VGPU SECONDS: starts a program that multiplies matrices for so long
	"$virgate" run --vgpu "$1" "${sim[@]}" -- "$build/examples/matmul" --size $size --seconds "$2" \
		>"$place/$1.out" 2>"$place/$1.err" &
}

products() { # VGPU: prints how many products its program made
	sed -n 's/^matmul: \([0-9]*\) products .* correct$/\1/p' "$place/$1.out"
}

if reason=$("$virgate" devices 2>&1); then
	echo "On the GPU of this machine:"
	limit=$((4 << 30)) size=2048 chunk=64M
else
	echo "On the simulated GPU (${reason#virgate: }):"
	sim=(--sim)
	limit=$((512 << 20)) size=128 chunk=16M
fi
must devices "${sim[@]}"
must create product --memory $limit --device 0 "${sim[@]}"
must create grower --memory $limit --device 0 "${sim[@]}"

# Runs both programs at once, and measures them meanwhile. Fails if the product ended before that, as may happen on a
# busy machine.
run_both() { # SECONDS
	local i now still=0
	echo "\$ virgate run --vgpu product -- matmul --size $size --seconds $1 &"
	"$virgate" run --vgpu product "${sim[@]}" -- "$build/examples/matmul" --size $size --seconds "$1" \
		>"$place/product.out" 2>"$place/product.err" &
	product=$!
	before=''
	# Waits until the program has allocated its memory.
	for ((i = 0; i < 100 && still < 8; i++)); do
		sleep 0.1
		now=$(figure product charged)
		[[ -n $now && $now != 0 && $now == "$before" ]] && still=$((still + 1)) || still=0
		before=$now
	done

	echo "\$ virgate run --vgpu grower -- grow --exact --chunk $chunk --hold 1 &"
	"$virgate" run --vgpu grower "${sim[@]}" -- "$build/examples/grow" --exact --chunk $chunk --hold 1 \
		>"$place/grower.out" 2>"$place/grower.err" &
	grower=$!
	for ((i = 0; i < 100; i++)); do
		[[ -s $place/grower.out ]] && break
		kill -0 $grower 2>/dev/null || break
		sleep 0.1
	done

	must ps "${sim[@]}"
	"$virgate" ps product grower --json "${sim[@]}" >"$place/memory.json" || give_up "virgate ps --json"
	used=$(figure grower charged) physical=$(figure grower physical)
	during=$(figure product charged)
	# Whether both ran while the figures were measured: `virgate run` ends a moment after its program.
	[[ ${used:-0} != 0 ]] && kill -0 $product 2>/dev/null && kill -0 $grower 2>/dev/null && at_once=true ||
		at_once=false
	wait $grower
	grower_code=$? grower=
	wait $product
	product_code=$? product=
	$at_once
}
run_both 5 || run_both 15 || run_both 60
must logs grower "${sim[@]}"
sed 's/^/  /' "$place/product.out" "$place/product.err" "$place/grower.out" "$place/grower.err"

must create small --memory $limit --share 30 --device 0 "${sim[@]}"
must create large --memory $limit --share 70 --device 0 "${sim[@]}"
# Keeps the last figures in which both programs have GPU time.
measure_shares() {
	while kill -0 $small 2>/dev/null && kill -0 $large 2>/dev/null; do
		"$virgate" ps small large --json "${sim[@]}" >"$place/now.json" || give_up "virgate ps --json"
		[[ $(grep -c '"gpu_time"' "$place/now.json") != 2 ]] || mv "$place/now.json" "$place/shares.json"
		sleep 0.2
	done
}
echo '{"vgpus": []}' >"$place/shares.json"
# Fails if the counts of products are not as the shares: a busy machine needs more time.
run_with_shares() { # SECONDS
	echo "\$ virgate run --vgpu small -- matmul --size $size --seconds $1 &   # and the same in large"
	multiply small "$1"
	small=$!
	multiply large "$1"
	large=$!
	sleep 1.2 # ps shows a measurement while both run, which takes 2 seconds or more
	must ps small large "${sim[@]}"
	measure_shares
	wait $small
	small=
	wait $large
	large=
	few=$(products small) many=$(products large)
	all=$((${few:-0} + ${many:-0}))
	part=$((all > 0 ? (200 * ${few:-0} + all) / (2 * all) : 0))
	[[ $part -ge 20 && $part -le 40 ]]
}
run_with_shares 2 || run_with_shares 10 || run_with_shares 30

echo "What was to be shown:"
expect "both programs ran at once" $at_once
expect "the grower was refused by its quota, and told why" \
	grep -q '^.*vGPU grower: asked .* used' "$place/grower.err"
expect "the grower saw that as the driver's out of memory, and ended well" \
	eval "[[ $grower_code == 0 ]] && grep -q 'then out of memory' '$place/grower.out'"
expect "exactly at its quota: ${used:-?} of $limit bytes are used, not even 2 MiB more would fit" \
	eval "[[ -n '$used' && ${used:-0} -le $limit && $((limit - ${used:-0})) -lt $((2 << 20)) ]]"
if [[ -n $physical ]]; then
	expect "the driver's own figure for it ($physical bytes) is within the quota and 32 MiB" \
		test "$physical" -le $((limit + (32 << 20)))
fi
expect "the other's result is correct" \
	eval "[[ $product_code == 0 ]] && grep -q ' correct' '$place/product.out'"
expect "the other was untouched: $during bytes used as before, nothing refused" \
	test "$during" = "$before" -a "$(figure product refusals)" = 0
expect "with shares of 30 and 70 they made ${few:-no} and ${many:-no} products: $part % and $((100 - part)) %" \
	test "$part" -ge 20 -a "$part" -le 40
"$virgate" rm product grower small large "${sim[@]}" >/dev/null || failures+=("the vGPUs could not be removed")
expect "all vGPUs are gone" eval "[[ -z \$('$virgate' ps --json ${sim[*]} | grep '\"name\"') ]]"

[[ $(locale charmap 2>/dev/null) == UTF-8 ]] && style=() || style=(--ascii)
"$(dirname "$0")/demo-chart" "${style[@]}" "$place/memory.json" "$place/shares.json" || give_up "the chart"
if ((${#failures[@]})); then
	printf 'FAILED: not true: %s\n' "${failures[0]}"
	exit 1
fi
((${#sim[@]})) && kind='simulated GPU' || kind=GPU
echo "PASSED: two programs shared one $kind, and each kept to its quota and its share"
