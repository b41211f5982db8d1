// A weak definition of every driver entry: a strong one elsewhere in the simulator
// overrides it. cuda.h is not included here, so that one untyped function can stand behind
// all of them: none reads an argument, and all return a 32-bit status.
#include "fallback.h"

int sim_not_supported(void)
{
	return 801; // CUDA_ERROR_NOT_SUPPORTED
}

#define ENTRY(abi, api, version, stream, family, need)                                             \
	int abi(void);                                                                             \
	__attribute__((weak, alias("sim_not_supported"), visibility("default"))) int abi(void);
#include "abi/entries.def"
