// The profiler's functions are in the list of cudaTypedefs.h.
#pragma once
#include <cudaTypedefs.h>
