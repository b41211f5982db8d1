// Declares copies and memsets (copy*.c, set.c). Any thread.
#pragma once

#include "op.h"

// Hides accesses to the program's bytes from the thread sanitizer: threads of a program may race for these bytes, as on
// a GPU.
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define SIM_PROGRAMS_BYTES(access)                             \
	do {                                                   \
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);  \
		AnnotateIgnoreWritesBegin(__FILE__, __LINE__); \
		access;                                        \
		AnnotateIgnoreWritesEnd(__FILE__, __LINE__);   \
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);    \
	} while (0)
#else
#define SIM_PROGRAMS_BYTES(access) access
#endif

enum sim_call { SIM_SYNCHRONOUS, SIM_ASYNCHRONOUS };
enum { SIM_STAGED = 64 << 10 }; // a source in pageable memory of at most this size is copied during the call

struct sim_copy_tiles {		       // the source or the destination, if it is in a sparse array
	const struct sim_array *array; // NULL: this side is in no sparse array
	size_t x, y, z;		       // where the copied box begins in the array: in bytes, rows and slices
};

struct sim_copy_op {
	struct sim_op op;
	CUDA_MEMCPY3D copy;
	struct sim_copy_tiles from_tiles, to_tiles;
	// the devices whose memory the source and the destination are in; NULL: host memory
	struct sim_device *source, *target;
	uintptr_t from, to; // addresses of the first byte of the source and of the destination
	size_t from_pitch, from_slice, to_pitch, to_slice;
	void *staged; // the contents of a pageable source, copied during the call
};
extern const struct sim_op_class sim_copy_class;
// Checks a copy as the driver does during the call, and creates its operation.
CUresult sim_copy_op_new(struct sim_context *context, const CUDA_MEMCPY3D *copy, struct sim_op **ret_op);
// Checks a copy and submits it to the stream of a handle.
CUresult sim_copy(CUstream stream, const CUDA_MEMCPY3D *copy, enum sim_call call);
// Copies from the memory of one context to that of another. The contexts need no access to each other's memory.
CUresult sim_copy_peer(CUstream stream, const CUDA_MEMCPY3D *copy, enum sim_call call);

struct sim_set_op {
	struct sim_op op;
	CUDA_MEMSET_NODE_PARAMS set;
	struct sim_device *device; // device that may write to the memory
};
extern const struct sim_op_class sim_set_class;
CUresult sim_set_op_new(struct sim_context *context, const CUDA_MEMSET_NODE_PARAMS *set, struct sim_op **ret_op);
