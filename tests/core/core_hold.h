// Blocks a stream with a host function that waits until the test continues it. This works with every driver.
#pragma once
#include "core_test.h"

#include <cuda.h>
#include <dlfcn.h>
#include <semaphore.h>

struct hold {
	sem_t go;
};

static inline void hold_wait(void *hold)
{
	sem_wait(&((struct hold *)hold)->go);
}

// Makes later work of the stream wait until hold_end().
static inline void hold_stream(struct hold *hold, struct vg_stream *stream)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	__typeof__(&cuLaunchHostFunc) launch = driver ? dlsym(driver, "cuLaunchHostFunc") : NULL;
	struct CUctx_st *before;

	CHECK(launch != NULL);
	CHECK_INT(sem_init(&hold->go, 0, 0), 0);
	OK(vg_context_set_current(vg_stream_context(stream), &before));
	CHECK_INT(launch(vg_stream_handle(stream), hold_wait, hold), CUDA_SUCCESS);
	OK(vg_context_restore(before));
	dlclose(driver);
}

static inline void hold_end(struct hold *hold)
{
	sem_post(&hold->go);
}
