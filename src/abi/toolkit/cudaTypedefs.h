// Types of pointers to the driver's functions: PFN_NAME_vVERSION, and _ptds or _ptsz for the per-thread default stream.
// Only for programs that define __CUDA_API_VERSION_INTERNAL, because the types need the functions' exported names.
#pragma once
#include <cuda.h>
#include <cudaProfiler.h>

#define ENTRY(abi, api, version, stream, family, need) ENTRY_##stream(abi, api, version)
#define ENTRY_plain(abi, api, version) typedef __typeof__(&abi) PFN_##api##_v##version;
#define ENTRY_ptds(abi, api, version) typedef __typeof__(&abi) PFN_##api##_v##version##_ptds;
#define ENTRY_ptsz(abi, api, version) typedef __typeof__(&abi) PFN_##api##_v##version##_ptsz;
#include "../entries.def"
#undef ENTRY_plain
#undef ENTRY_ptds
#undef ENTRY_ptsz
