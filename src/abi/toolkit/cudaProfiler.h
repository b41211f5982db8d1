// The functions of the driver API that start and stop a profiler.
#pragma once
#include "cuda/result.h"

typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;

CU_API(cuProfilerInitialize, (const char *configuration, const char *output, CUoutput_mode))
CU_API(cuProfilerStart, (void))
CU_API(cuProfilerStop, (void))
