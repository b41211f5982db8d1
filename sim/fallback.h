// Declares what a driver function does that the simulator lacks: it returns CUDA_ERROR_NOT_SUPPORTED and records the
// call. Any thread.
#pragma once

#define ENTRY(abi, api, version, stream, family, need) int sim_stub_##abi(void);
#include "abi/entries.def"
#undef ENTRY
