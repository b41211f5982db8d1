// Declares a stand-in for each driver function that the simulator does not implement. A stand-in records the call and
// returns CUDA_ERROR_NOT_SUPPORTED. Any thread.
#pragma once

#define ENTRY(abi, api, version, stream, family, need) int sim_stub_##abi(void);
#include "abi/entries.def"
#undef ENTRY
