// The profiler's part of the CUDA runtime API.
#pragma once
#include "cudart/error.h"

CUDART_API(cudaProfilerStart, (void))
CUDART_API(cudaProfilerStop, (void))
