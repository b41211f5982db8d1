// Between the copy files. Any thread.
#pragma once

#include "sim.h"

// Threads of a program may race for the same bytes, as they may on a GPU: that is the program's business, and the
// thread sanitizer does not look while they are moved.
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define SIM_PROGRAMS_BYTES(access)                                                                                     \
	do {                                                                                                           \
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);                                                          \
		AnnotateIgnoreWritesBegin(__FILE__, __LINE__);                                                         \
		access;                                                                                                \
		AnnotateIgnoreWritesEnd(__FILE__, __LINE__);                                                           \
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);                                                            \
	} while (0)
#else
#define SIM_PROGRAMS_BYTES(access) access
#endif

enum { SIM_STAGED = 64 << 10 }; // pageable sources up to this are copied when the call is made

// Checks and submits to the stream (NULL and so on as handles go).
CUresult sim_copy(CUstream stream, const CUDA_MEMCPY3D *copy, bool asynchronous);
// Between the memory of two contexts, each of which may access its own.
CUresult sim_copy_peer(CUstream stream, const CUDA_MEMCPY3D *copy, bool asynchronous);
bool sim_host_find(uintptr_t address, struct sim_pointer *ret_pointer); // host.c

enum sim_host_cover {
	SIM_HOST_NONE,	// pageable memory
	SIM_HOST_WHOLE, // one allocation or registration covers it
	SIM_HOST_PART,	// it crosses the border of one
};
enum sim_host_cover sim_host_cover(uintptr_t first, size_t length); // host.c
