// Includes cudaTypedefs.h, which also has the types of the profiler's functions.
#pragma once
#include <cudaTypedefs.h>
