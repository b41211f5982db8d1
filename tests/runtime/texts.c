// Prints the name and the text of each possible error number.
#include <stdio.h>

#include <cuda_runtime_api.h>

int main(void)
{
	for (int i = -1; i <= 10001; i++)
		printf("%d %s: %s\n", i, cudaGetErrorName((cudaError_t)i), cudaGetErrorString((cudaError_t)i));
	return 0;
}
