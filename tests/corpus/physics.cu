// Kernels of the corpus that simulate and transform: bodies under gravity, Runge-Kutta in f64, the Fourier and the
// cosine transform, and k-means.
#include "corpus.cuh"

KERNEL(n_body)
{
	__shared__ float4 tile[64];
	const float4 *body = (const float4 *)in;
	float4 mine = body[THREAD];
	float3 pull = make_float3(0, 0, 0);

	for (unsigned first = 0; first < n; first += blockDim.x) {
		tile[threadIdx.x] = body[first + threadIdx.x];
		__syncthreads();
		for (unsigned k = 0; k < blockDim.x; k++) {
			float x = tile[k].x - mine.x, y = tile[k].y - mine.y, z = tile[k].z - mine.z;
			float inverse = rsqrtf(fmaf(x, x, fmaf(y, y, fmaf(z, z, 0.01f))));
			float weight = fabsf(tile[k].w) * inverse * inverse * inverse;
			pull.x = fmaf(x, weight, pull.x);
			pull.y = fmaf(y, weight, pull.y);
			pull.z = fmaf(z, weight, pull.z);
		}
		__syncthreads();
	}
	((float4 *)out)[THREAD] = make_float4(pull.x, pull.y, pull.z, 0);
}

// Integrates a damped pendulum: y'' = -sin(y) - 0.1 y'.
KERNEL(runge_kutta)
{
	double y = ((const double *)in)[THREAD] * 3, v = 0, h = 0.05;

	for (unsigned i = 0; i < n; i++) {
		double y1 = v, v1 = fma(-0.1, v, -sin(y));
		double y2 = fma(h / 2, v1, v), v2 = fma(-0.1, y2, -sin(fma(h / 2, y1, y)));
		double y3 = fma(h / 2, v2, v), v3 = fma(-0.1, y3, -sin(fma(h / 2, y2, y)));
		double y4 = fma(h, v3, v), v4 = fma(-0.1, y4, -sin(fma(h, y3, y)));
		y = fma(h / 6, y1 + 2 * y2 + 2 * y3 + y4, y);
		v = fma(h / 6, v1 + 2 * v2 + 2 * v3 + v4, v);
	}
	((double *)out)[2 * THREAD] = y;
	((double *)out)[2 * THREAD + 1] = v;
}

// Transforms 256 points in one block with the fast Fourier transform: brings the points into bit-reversed order, then
// makes eight passes of butterflies.
KERNEL(fourier)
{
	__shared__ float2 point[256];
	const float2 *x = (const float2 *)in + 256 * blockIdx.x;
	unsigned at = threadIdx.x;

	point[__brev(at) >> 24] = x[at];
	point[__brev(at + 128) >> 24] = x[at + 128];
	for (unsigned half = 1; half < 256; half *= 2) {
		__syncthreads();
		unsigned low = at / half * 2 * half + at % half;
		float real, imaginary;
		sincospif(-(float)(at % half) / half, &imaginary, &real);
		float2 a = point[low], b = point[low + half];
		float2 turned = make_float2(fmaf(b.x, real, -(b.y * imaginary)), fmaf(b.x, imaginary, b.y * real));
		point[low] = make_float2(a.x + turned.x, a.y + turned.y);
		point[low + half] = make_float2(a.x - turned.x, a.y - turned.y);
	}
	__syncthreads();
	((float2 *)out)[256 * blockIdx.x + at] = point[at];
	((float2 *)out)[256 * blockIdx.x + at + 128] = point[at + 128];
}

// Makes the cosine transform of blocks of 8 x 8 values, first of the rows, then of the columns.
KERNEL(cosine_transform)
{
	__shared__ float block[8][9], weight[8][8];
	unsigned x = threadIdx.x, y = threadIdx.y;
	float sum = 0;

	weight[y][x] = cospif((2 * x + 1) * y / 16.0f) * (y ? 0.5f : 0.353553391f);
	block[y][x] = ((const float *)in)[64 * blockIdx.x + 8 * y + x];
	__syncthreads();
	for (int k = 0; k < 8; k++)
		sum = fmaf(block[y][k], weight[x][k], sum);
	__syncthreads();
	block[y][x] = sum;
	__syncthreads();
	sum = 0;
	for (int k = 0; k < 8; k++)
		sum = fmaf(block[k][x], weight[y][k], sum);
	((float *)out)[64 * blockIdx.x + 8 * y + x] = sum;
}

// Makes one step of k-means with eight centres. Coordinates are in fixed point, so that the order of the sums does not
// matter. The kernel computes the centres from the sums of the step before, assigns each point to its nearest centre,
// and adds it to the sums of this step. `work` has the sums of x and y, and the count, of each centre.
KERNEL(k_means)
{
	__shared__ int centre[8][2];
	int x = in[2 * THREAD] >> 16, y = in[2 * THREAD + 1] >> 16;

	if (threadIdx.x < 8) {
		const unsigned *sum = work + (step + 1) % 2 * 24 + 3 * threadIdx.x;
		unsigned count = step ? max(sum[2], 1u) : 1;
		centre[threadIdx.x][0] = step ? sum[0] / count : in[2 * threadIdx.x] >> 16;
		centre[threadIdx.x][1] = step ? sum[1] / count : in[2 * threadIdx.x + 1] >> 16;
	}
	__syncthreads();
	unsigned best = 0;
	long long least = 1ll << 62;
	for (unsigned k = 0; k < 8; k++) {
		long long dx = x - centre[k][0], dy = y - centre[k][1], distance = dx * dx + dy * dy;
		if (distance < least)
			least = distance, best = k;
	}
	unsigned *sum = work + step % 2 * 24 + 3 * best;
	atomicAdd(sum, x);
	atomicAdd(sum + 1, y);
	atomicAdd(sum + 2, 1);
	out[THREAD] = best;
	if (THREAD < 16)
		out[n + THREAD] = centre[THREAD / 2][THREAD % 2];
	(void)n;
}

// Runs after k_means in each step. Clears the sums into which the next step adds.
KERNEL(k_means_clear)
{
	if (THREAD < 24)
		work[(step + 1) % 2 * 24 + THREAD] = 0;
}
