// cudaTypedefs.h has the types of the profiler's functions, too.
#pragma once
#include <cudaTypedefs.h>
