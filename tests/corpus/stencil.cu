// Kernels of the corpus that compute stencils of one, two and three dimensions, and the game of life.
#include "corpus.cuh"

KERNEL(stencil_1d)
{
	__shared__ float tile[256 + 8];
	const float *x = (const float *)in;
	unsigned i = THREAD, at = threadIdx.x + 4;

	tile[at] = x[i];
	if (threadIdx.x < 4) {
		tile[threadIdx.x] = i >= 4 ? x[i - 4] : 0;
		tile[at + blockDim.x] = i + blockDim.x < n ? x[i + blockDim.x] : 0;
	}
	__syncthreads();
	float sum = 0;
	for (int k = -4; k <= 4; k++)
		sum = fmaf(tile[at + k], 1.0f / (1 + k * k), sum);
	((float *)out)[i] = sum;
}

// Makes one step of Jacobi's method. The steps read alternately from `out` and `work`, and write to the other one.
KERNEL(stencil_2d)
{
	unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	const double *from = (const double *)(step == 0 ? in : step & 1 ? out : work);
	double *to = (double *)(step & 1 ? work : out);

	if (x == 0 || y == 0 || x == n - 1 || y == n - 1)
		to[y * n + x] = from[y * n + x];
	else
		to[y * n + x] = 0.25 * (from[y * n + x - 1] + from[y * n + x + 1] + from[(y - 1) * n + x] +
					from[(y + 1) * n + x]);
}

KERNEL(stencil_3d)
{
	const float *u = (const float *)in;
	unsigned x = threadIdx.x, y = threadIdx.y, z = blockIdx.x, plane = n * n;
	unsigned i = z * plane + y * n + x;
	float left = x ? u[i - 1] : 0, right = x < n - 1 ? u[i + 1] : 0, front = y ? u[i - n] : 0;
	float back = y < n - 1 ? u[i + n] : 0, under = z ? u[i - plane] : 0, over = z < n - 1 ? u[i + plane] : 0;

	((float *)out)[i] = fmaf(-6.0f, u[i], left + right + front + back + under + over);
}

// Makes a step of the game of life. A word contains 32 cells of a row, and bitwise adders count the neighbours of all
// of them at once.
KERNEL(game_of_life)
{
	__shared__ unsigned board[64];
	unsigned row = threadIdx.x;

	board[row] = in[row];
	for (unsigned generation = 0; generation < n; generation++) {
		__syncthreads();
		unsigned rows[3] = {board[(row + 63) % 64], board[row], board[(row + 1) % 64]};
		unsigned ones = 0, twos = 0, fours = 0;
		for (int r = 0; r < 3; r++)
			for (int k = -1; k <= 1; k++) {
				if (r == 1 && k == 0)
					continue;
				unsigned cells = __funnelshift_l(rows[r], rows[r], k), carry = ones & cells;
				ones ^= cells;
				fours |= twos & carry;
				twos ^= carry;
			}
		unsigned next = ~fours & twos & (ones | rows[1]);
		__syncthreads();
		board[row] = next;
	}
	out[row] = board[row];
}
