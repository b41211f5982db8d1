// Kernels that use the address of a region.
extern "C" {
__global__ void put_byte(unsigned char *at, unsigned long long index, unsigned char value) { at[index] = value; }
__global__ void put_word(unsigned *at, unsigned long long index, unsigned value) { at[index] = value; }
__global__ void get_byte(const unsigned char *at, unsigned long long index, unsigned char *to) { *to = at[index]; }
__global__ void fill_words(unsigned *at, unsigned long long count, unsigned value)
{
	for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
		at[i] = value;
}
}
