// The definitions of entries that the simulator lacks: they return CUDA_ERROR_NOT_SUPPORTED and record the call. Any
// thread.
#pragma once

#define ENTRY(abi, api, version, stream, family, need) int sim_stub_##abi(void);
#include "abi/entries.def"
#undef ENTRY
