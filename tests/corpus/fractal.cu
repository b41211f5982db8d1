// Kernels of the corpus with loops that differ in length within a warp: the Mandelbrot set in f32 and in fixed point,
// and the Collatz sequence.
#include "corpus.cuh"

KERNEL(mandelbrot)
{
	float cx = fmaf((float)(THREAD % n), 3.0f / n, -2.0f), cy = fmaf((float)(THREAD / n), 2.4f / n, -1.2f);
	float x = 0, y = 0;
	unsigned count = 0;

	while (count < 128) {
		float xx = x * x, yy = y * y;
		if (xx + yy > 4)
			break;
		y = fmaf(2 * x, y, cy);
		x = xx - yy + cx;
		count++;
	}
	out[THREAD] = count;
}

KERNEL(mandelbrot_fixed)
{
	long long cx = ((long long)(THREAD % n) * 3 << 28) / n - (2ll << 28);
	long long cy = ((long long)(THREAD / n) * 2 << 28) / n - (1ll << 28);
	long long x = 0, y = 0;
	unsigned count = 0;

	for (; count < 64 && x * x + y * y < 4ll << 56; count++) {
		long long next = ((x * x - y * y) >> 28) + cx;
		y = ((2 * x * y) >> 28) + cy;
		x = next;
	}
	out[THREAD] = count;
}

KERNEL(collatz)
{
	word64 x = in[THREAD] % 100000 + 1, highest = x;
	unsigned length = 0;

	while (x != 1) {
		x = x & 1 ? 3 * x + 1 : x / 2;
		highest = x > highest ? x : highest;
		length++;
	}
	out[2 * THREAD] = length;
	out[2 * THREAD + 1] = (unsigned)highest;
}
