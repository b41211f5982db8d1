/* The types of CUDA's handles, without CUDA's headers. They are the same types: a CUstream is a
 * struct CUstream_st *, and a program that includes <cuda.h> needs no casts. */
#ifndef VIRGATE_CUDA_HANDLES_H
#define VIRGATE_CUDA_HANDLES_H

#include <stdint.h>

struct CUarray_st;
struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUgraph_st;
struct CUgraphicsResource_st;
struct CUgreenCtx_st;
struct CUkern_st;
struct CUlib_st;
struct CUmemPoolHandle_st;
struct CUstream_st;

/* The value of a CUdeviceptr: a device address, or a host address that is the same on the device. */
typedef uint64_t vg_address;

#endif
