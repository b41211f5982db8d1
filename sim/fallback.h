// What stands in for entries that the simulator lacks: they answer CUDA_ERROR_NOT_SUPPORTED and say
// that they were called. Any thread.
#pragma once

#define ENTRY(abi, api, version, stream, family, need) int sim_stub_##abi(void);
#include "abi/entries.def"
#undef ENTRY
