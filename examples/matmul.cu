// C = A * B for square matrices of any size: tiles of TILE * TILE elements are copied to shared memory.
#define TILE 16

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned size)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	unsigned row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (unsigned first = 0; first < size; first += TILE) {
		unsigned along = first + threadIdx.x, down = first + threadIdx.y;

		tile_a[threadIdx.y][threadIdx.x] = row < size && along < size ? a[(size_t)row * size + along] : 0;
		tile_b[threadIdx.y][threadIdx.x] = down < size && column < size ? b[(size_t)down * size + column] : 0;
		__syncthreads();
		for (unsigned i = 0; i < TILE; i++)
			sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
		__syncthreads();
	}
	if (row < size && column < size)
		c[(size_t)row * size + column] = sum;
}
