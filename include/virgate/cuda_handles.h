/* CUDA's own handles, named without CUDA's headers: the types are the same ones, so a CUstream
 * goes where a struct CUstream_st * is asked for, and a program that includes <cuda.h> casts nothing. */
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

/* CUdeviceptr's value: a device address, or a host address where the driver maps the two alike. */
typedef uint64_t vg_address;

#endif
