// Kernels of the corpus that call functions recursively and through pointers, or jump through tables.
#include "corpus.cuh"

static __device__ __noinline__ unsigned ackermann(unsigned m, unsigned k)
{
	if (m == 0)
		return k + 1;
	if (k == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, k - 1));
}
KERNEL(ackermann_function) { out[THREAD] = ackermann(THREAD % 3, in[THREAD] % 7); }

static __device__ __noinline__ void quick_sort(int *key, int low, int high)
{
	int pivot = key[(low + high) / 2], i = low, j = high;

	while (i <= j) {
		while (key[i] < pivot)
			i++;
		while (key[j] > pivot)
			j--;
		if (i <= j) {
			int swap = key[i];
			key[i++] = key[j];
			key[j--] = swap;
		}
	}
	if (low < j)
		quick_sort(key, low, j);
	if (i < high)
		quick_sort(key, i, high);
}
KERNEL(sort_quick)
{
	int key[32];

	for (int i = 0; i < 32; i++)
		key[i] = in[32 * THREAD + i];
	quick_sort(key, 0, 31);
	for (int i = 0; i < 32; i++)
		out[32 * THREAD + i] = key[i];
}

struct towers {
	unsigned height[3], moves;
	word64 trace;
};
static __device__ __noinline__ struct towers hanoi(struct towers t, int count, int from, int to)
{
	if (count == 0)
		return t;
	int other = 3 - from - to;
	t = hanoi(t, count - 1, from, other);
	t.height[from]--, t.height[to]++, t.moves++;
	t.trace = t.trace * 31 + from * 3 + to;
	return hanoi(t, count - 1, other, to);
}
KERNEL(towers_of_hanoi)
{
	struct towers t = {{THREAD % 8, 0, 0}, 0, 1};

	t = hanoi(t, THREAD % 8, 0, 2);
	out[4 * THREAD] = t.height[2];
	out[4 * THREAD + 1] = t.moves;
	((word64 *)out)[2 * THREAD + 1] = t.trace;
}

// Counts the solutions of the eight queens problem for given queens in the first two rows. The number of the thread
// determines these two queens.
static __device__ __noinline__ unsigned queens(unsigned columns, unsigned left, unsigned right)
{
	if (columns == 255)
		return 1;
	unsigned count = 0;
	for (unsigned open = ~(columns | left | right) & 255; open; open &= open - 1) {
		unsigned bit = open & -open;
		count += queens(columns | bit, (left | bit) << 1, (right | bit) >> 1);
	}
	return count;
}
KERNEL(n_queens)
{
	unsigned first = 1u << (THREAD & 7), second = 1u << (THREAD >> 3 & 7);
	unsigned count = 0;

	if (second != first && second != first << 1 && second != first >> 1)
		count = queens(first | second, ((first << 1) | second) << 1, ((first >> 1) | second) >> 1);
	out[THREAD] = count;
	atomicAdd(out + n, count);
}

typedef unsigned operation(unsigned, unsigned);
static __device__ __noinline__ unsigned op_add(unsigned x, unsigned y) { return x + y; }
static __device__ __noinline__ unsigned op_mix(unsigned x, unsigned y) { return (x ^ y) * 0x9e3779b1; }
static __device__ __noinline__ unsigned op_turn(unsigned x, unsigned y) { return rotate_left(x, y & 31); }
static __device__ __noinline__ unsigned op_divide(unsigned x, unsigned y) { return x / (y | 1); }
static __device__ operation *const operations[4] = {op_add, op_mix, op_turn, op_divide};

KERNEL(function_pointers)
{
	unsigned x = THREAD;

	for (unsigned i = 0; i < n; i++)
		x = operations[(in[THREAD] >> (2 * (i & 15))) & 3](x, in[i]);
	out[THREAD] = x;
}

// Interprets bytecode with a switch over many cases, which becomes a jump table.
KERNEL(bytecode)
{
	unsigned a = THREAD, b = in[THREAD], sum = 0;

	for (unsigned at = 0; at < n; at++) {
		unsigned code = in[(THREAD / 8 * 16 + at) % 512];
		switch (code % 16) {
		case 0: a += b; break;
		case 1: a -= b * 3; break;
		case 2: a ^= b >> 3; break;
		case 3: b = a << (code >> 8 & 7); break;
		case 4: sum += __popc(a); break;
		case 5: sum ^= __brev(b); break;
		case 6: a = __clz(a) + b; break;
		case 7: b = min(a, b) + 11; break;
		case 8: sum = sum * 33 + a; break;
		case 9: a = b / 7; break;
		case 10: b = a % 1001; break;
		case 11: if (a & 1) at++; break;
		case 12: a = __ffs(b) * 5; break;
		case 13: b |= code; break;
		case 14: a = ~a; break;
		case 15: sum += a ^ b; break;
		}
	}
	out[THREAD] = a ^ b ^ sum;
}
