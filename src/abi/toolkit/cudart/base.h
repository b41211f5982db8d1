// Declares the handles of the runtime API, and its functions for errors.
#pragma once
#include <stddef.h>
#include "../cuda/uuid.h"
#include "error.h"
#include "vector.h"

CUDART_API(cudaGetLastError, (void))
CUDART_API(cudaPeekAtLastError, (void))
CUDART_LINKAGE const char *CUDARTAPI cudaGetErrorName(cudaError_t error);
CUDART_LINKAGE const char *CUDARTAPI cudaGetErrorString(cudaError_t error);

// Arrays and graphics resources
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef const struct cudaMipmappedArray *cudaMipmappedArray_const_t;
typedef struct cudaGraphicsResource *cudaGraphicsResource_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long cudaTextureObject_t;

// Handles of the driver, under the names of the runtime API
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUexternalMemory_st *cudaExternalMemory_t;
typedef struct CUexternalSemaphore_st *cudaExternalSemaphore_t;
typedef struct CUfunc_st *cudaFunction_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUlib_st *cudaLibrary_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphDeviceUpdatableNode_st *cudaGraphDeviceNode_t;
typedef unsigned long long cudaGraphConditionalHandle;
typedef struct CUuserObject_st *cudaUserObject_t;
typedef CUuuid cudaUUID_t;

typedef void(CUDART_CB *cudaHostFn_t)(void *data);
