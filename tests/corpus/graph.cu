// Kernels of the corpus that work on sparse matrices and graphs: a matrix by a vector, breadth-first search,
// components, and all shortest paths. A hash defines the graph: vertex v has edges to v / 2 and to three other
// vertices.
#include "corpus.cuh"

static __device__ unsigned neighbour(const unsigned *in, unsigned v, unsigned k, unsigned n)
{
	return k == 0 ? v / 2 : (in[v] * (2 * k + 1) + v * 7 + k) >> 3 & (n - 1);
}

// Multiplies a sparse matrix by a vector. One warp computes each row. Row r has r % 41 entries, and a formula gives
// their columns.
KERNEL(sparse_product)
{
	const double *value = (const double *)in;
	unsigned row = THREAD / 32, lane = THREAD % 32, length = row % 41;
	double sum = 0;

	for (unsigned k = lane; k < length; k += 32) {
		unsigned column = (row * 13 + k * k * 5) % n;
		sum = fma(value[(row + k) % n], value[column], sum);
	}
	for (int by = 16; by; by /= 2)
		sum += __shfl_down_sync(~0u, sum, by);
	if (lane == 0)
		((double *)out)[row] = sum;
}

// Finds the distance of each vertex from the last one. The output is the distance + 1, or 0 if the vertex was not
// reached.
KERNEL(breadth_first)
{
	unsigned v = THREAD;

	if (v >= n)
		return;
	if (step == 0 && v == n - 1)
		out[v] = 1;
	if (step > 0 && out[v] == step)
		for (unsigned k = 0; k < 4; k++)
			atomicCAS(out + neighbour(in, v, k, n), 0, step + 1);
}

static __device__ unsigned root(volatile unsigned *parent, unsigned v)
{
	while (parent[v] != v)
		v = parent[v];
	return v;
}

// Finds the connected components of the graph in three launches. The first makes each vertex its own parent. The second
// hooks larger roots under smaller ones. The third makes the root the parent of each vertex.
KERNEL(components)
{
	unsigned v = THREAD;

	if (step == 0) {
		out[v] = v;
	} else if (step == 1) {
		if (in[v] % 3 == 0)
			return;
		unsigned a = root(out, v), b = root(out, neighbour(in, v, 1, n));
		while (a != b) {
			unsigned high = max(a, b), low = min(a, b);
			unsigned seen = atomicCAS(out + high, high, low);
			if (seen == high)
				break;
			a = root(out, seen), b = root(out, low);
		}
	} else {
		out[v] = root(out, v);
	}
}

KERNEL(floyd_warshall)
{
	__shared__ unsigned distance[32][33];
	unsigned row = threadIdx.y, column = threadIdx.x;

	for (unsigned y = row; y < 32; y += blockDim.y)
		distance[y][column] = y == column ? 0 : in[y * 32 + column] % 5 ? 1000000 : in[y * 32 + column] >> 20;
	for (unsigned k = 0; k < 32; k++)
		for (unsigned y = row; y < 32; y += blockDim.y) {
			__syncthreads();
			unsigned over = distance[y][k] + distance[k][column];
			__syncthreads();
			distance[y][column] = min(distance[y][column], over);
		}
	for (unsigned y = row; y < 32; y += blockDim.y)
		out[y * 32 + column] = distance[y][column];
}
