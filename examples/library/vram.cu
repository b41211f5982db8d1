extern "C" __global__ void twice(float *values, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		values[i] *= 2;
}
