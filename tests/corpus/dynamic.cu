// Kernels of the corpus that work with tables and texts: edit distance, alignment, knapsack, base64, run lengths, and
// matches.
#include "corpus.cuh"

// Returns letter i of a text over an alphabet of four letters, which takes two bits for each letter.
static __device__ unsigned letter(const unsigned *in, unsigned i) { return in[i / 16] >> 2 * (i % 16) & 3; }

// Computes the edit distance of two texts of 64 letters in one block. The block fills the table by its anti-diagonals.
KERNEL(edit_distance)
{
	__shared__ unsigned row[3][65];
	unsigned at = threadIdx.x, first = blockIdx.x * 8;

	for (unsigned diagonal = 0; diagonal <= 128; diagonal++) {
		unsigned *now = row[diagonal % 3], *last = row[(diagonal + 2) % 3], *before = row[(diagonal + 1) % 3];
		if (at <= 64 && at <= diagonal && diagonal - at <= 64) {
			unsigned i = at, j = diagonal - at;
			if (i == 0 || j == 0) {
				now[i] = i + j;
			} else {
				unsigned change = letter(in + first, i - 1) != letter(in + first + 4, j - 1);
				now[i] = min(min(last[i] + 1, last[i - 1] + 1), before[i - 1] + change);
			}
		}
		__syncthreads();
	}
	if (at == 0)
		out[blockIdx.x] = row[128 % 3][64];
}

// Computes the scores of Needleman and Wunsch. Each thread has a table of its own in local memory.
KERNEL(alignment)
{
	short score[33];

	for (int i = 0; i <= 32; i++)
		score[i] = -2 * i;
	for (int j = 1; j <= 32; j++) {
		short corner = score[0];
		score[0] = -2 * j;
		for (int i = 1; i <= 32; i++) {
			short same = letter(in + THREAD, i - 1) == letter(in + THREAD + 2, j - 1) ? 3 : -1;
			short best = max(corner + same, max(score[i] - 2, score[i - 1] - 2));
			corner = score[i];
			score[i] = best;
		}
	}
	out[THREAD] = (unsigned)score[32];
}

extern __shared__ unsigned dynamic_words[];

// Solves a knapsack problem. The kernel keeps two rows of its table in dynamic shared memory.
KERNEL(knapsack)
{
	unsigned *now = dynamic_words, *last = dynamic_words + n;

	for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
		last[i] = 0;
	for (unsigned item = 0; item < 24; item++) {
		unsigned weight = in[item] % 37 + 1, value = in[item] >> 8 & 1023;
		__syncthreads();
		for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
			now[i] = i >= weight ? max(last[i], last[i - weight] + value) : last[i];
		__syncthreads();
		unsigned *swap = now;
		now = last, last = swap;
	}
	for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
		out[i] = last[i];
}

static __constant__ char base64_letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

KERNEL(base64)
{
	const byte *three = (const byte *)in + 3 * THREAD;
	unsigned bits = three[0] << 16 | three[1] << 8 | three[2];
	char4 text = {base64_letters[bits >> 18], base64_letters[bits >> 12 & 63], base64_letters[bits >> 6 & 63],
		      base64_letters[bits & 63]};

	((char4 *)out)[THREAD] = text;
}

// Finds runs of equal letters. The threads whose letter begins a run number the runs with a ballot, and write the
// letter and the length.
KERNEL(run_length)
{
	__shared__ unsigned counts[8];
	unsigned at = threadIdx.x, lane = at % 32, mine = letter(in, at) & 1;
	bool head = at == 0 || mine != (letter(in, at - 1) & 1);
	unsigned heads = __ballot_sync(~0u, head), place = __popc(heads & ((1u << lane) - 1));

	if (lane == 0)
		counts[at / 32] = __popc(heads);
	__syncthreads();
	for (unsigned w = 0; w < at / 32; w++)
		place += counts[w];
	if (head) {
		unsigned length = 1;
		while (at + length < n && (letter(in, at + length) & 1) == mine)
			length++;
		out[place] = mine << 16 | length;
	}
}

// Finds, for each position, the longest match with earlier text, as an LZ77 compressor does.
KERNEL(longest_match)
{
	unsigned at = THREAD, best = 0, where = 0;

	for (unsigned from = at > 64 ? at - 64 : 0; from < at; from++) {
		unsigned length = 0;
		while (length < 18 && at + length < n && letter(in, from + length) == letter(in, at + length))
			length++;
		if (length > best)
			best = length, where = at - from;
	}
	out[at] = where << 8 | best;
}

struct parameters {
	const unsigned *in;
	unsigned *out, *work;
	unsigned n, step;
	short table[6];
	double factor;
	struct {
		char letter;
		float weight;
	} inner[3];
};

// The parameter is a structure that is passed by value. run.c declares the same structure.
extern "C" __global__ void by_value(struct parameters p)
{
	unsigned x = p.in[THREAD] + p.table[THREAD % 6] + p.inner[THREAD % 3].letter;

	p.out[THREAD] = x + (unsigned)(long long)(p.factor * p.inner[(THREAD + 1) % 3].weight * p.n);
}
