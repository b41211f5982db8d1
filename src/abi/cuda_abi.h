// Declares the driver's types and prototypes under the names of its exported symbols. The macros of cuda.h that rename
// functions (cuMemAlloc -> cuMemAlloc_v2) are undefined here. Any thread. A file that expands entries.def includes this
// header, not <cuda.h>.
#pragma once

#ifdef __cuda_cuda_h__
#error "include cuda_abi.h before (instead of) cuda.h"
#endif
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cudaTypedefs.h>
#include <cudaProfilerTypedefs.h>

#if CUDA_VERSION < 13000
#error "Virgate needs the CUDA toolkit 13.0 or later"
#endif

// The function pointer type of a row of entries.def.
#define VG_PFN(api, version, stream) VG_PFN_##stream(api, version)
#define VG_PFN_plain(api, version) PFN_##api##_v##version
#define VG_PFN_ptds(api, version) PFN_##api##_v##version##_ptds
#define VG_PFN_ptsz(api, version) PFN_##api##_v##version##_ptsz

// Defines the index of each row of entries.def: VG_ENTRY_cuMemAlloc_v2, ...
enum vg_entry {
#define ENTRY(abi, api, version, stream, family, need) VG_ENTRY_##abi,
#include "entries.def"
	VG_ENTRY_COUNT
};
