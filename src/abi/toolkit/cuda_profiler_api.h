// The functions of the CUDA runtime API that start and stop a profiler.
#pragma once
#include "cudart/error.h"

CUDART_API(cudaProfilerStart, (void))
CUDART_API(cudaProfilerStop, (void))
