extern "C" __global__ void power(const float *x, float *y, unsigned count, unsigned exponent)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
		float product = 1;
		for (unsigned step = 0; step < exponent; step++)
			product *= x[i];
		y[i] = product;
	}
}
