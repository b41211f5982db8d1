// Declares the handles of the driver API, and macros that declare its functions.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "uuid.h"

// The version of the driver API that these headers describe: 13.0.
#define CUDA_VERSION 13000
#define CUDAAPI
#define CUDA_CB

#ifdef __cplusplus
#define CU_LINKAGE extern "C"
#else
#define CU_LINKAGE extern
#endif

// CU_API declares a function. The other two also declare its variant for the per-thread default stream. With _ptsz, the
// function has a stream as a parameter. With _ptds, it has none, and uses the default stream.
#define CU_API(name, parameters) CU_LINKAGE CUresult CUDAAPI name parameters;
#define CU_API_PTSZ(name, parameters) CU_API(name, parameters) CU_API(name##_ptsz, parameters)
#define CU_API_PTDS(name, parameters) CU_API(name, parameters) CU_API(name##_ptds, parameters)

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;
typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice;
#define CU_DEVICE_CPU ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUlinkState_st *CUlinkState;

typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef unsigned long long CUtexObject_v1;
typedef CUtexObject_v1 CUtexObject;
typedef unsigned long long CUsurfObject_v1;
typedef CUsurfObject_v1 CUsurfObject;

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef cuuint64_t CUgraphConditionalHandle;
typedef struct CUuserObject_st *CUuserObject;

typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef CUmemGenericAllocationHandle_v1 CUmemGenericAllocationHandle;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;

typedef void(CUDA_CB *CUhostFn)(void *data);
