// For the programs that Python scripts start: a driver call that ends the program if it fails.
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#define DO(call)                                                         \
	do {                                                             \
		CUresult result = call;                                  \
		if (result != CUDA_SUCCESS) {                            \
			fprintf(stderr, "%s: %d\n", #call, (int)result); \
			exit(1);                                         \
		}                                                        \
	} while (0)
