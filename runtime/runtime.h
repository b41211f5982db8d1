// Declares the functions for initialization, for the thread's device and last error, and macros for entry points. Any
// thread.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "driver.h"

struct rt_device {
	CUdevice handle;
	CUcontext primary;  // NULL until the primary context is retained for the first time
	atomic_bool active; // the primary context is retained, and was not reset since
};

struct rt_thread {
	cudaError_t last_error;
	int device;	 // ordinal
	bool has_chosen; // by cudaSetDevice()
};
extern _Thread_local struct rt_thread rt_thread;

// Loads and initializes the driver once. Needs no context.
cudaError_t rt_initialize(void);

// Makes the primary context of the thread's device current, unless the program has made a context current.
cudaError_t rt_enter(void);

// Stores an error as the thread's last one, and returns it.
cudaError_t rt_record(cudaError_t error);

int rt_device_count(void);
// Finds the device of an ordinal. cudaErrorInvalidDevice: the ordinal does not exist.
cudaError_t rt_device_get(int ordinal, struct rt_device **ret_device);
// Returns the ordinal of the thread's device. Creates no context.
cudaError_t rt_device_current(int *ret_ordinal);
// Retains the primary context unless this library has retained it already.
cudaError_t rt_device_retain(struct rt_device *device);
// Chooses the device of the thread and makes its primary context current.
cudaError_t rt_device_choose(int ordinal);
cudaError_t rt_device_reset(int ordinal);
// Returns the ordinal of a driver's device handle.
int rt_device_ordinal(CUdevice handle);

// Loads the images with managed variables, because the host may read these without a call. Call it when a context
// becomes current.
cudaError_t rt_images_load_managed(void);

// Converts the driver's result; both have the same numbers.
static inline cudaError_t rt_error(CUresult result)
{
	return (cudaError_t)result;
}

// Is the body of an entry point: calls `expression` with a current context, records its error, and returns it.
#define RT_CALL(expression)                                 \
	do {                                                \
		cudaError_t error_ = rt_enter();            \
		if (error_ == cudaSuccess)                  \
			error_ = (cudaError_t)(expression); \
		return rt_record(error_);                   \
	} while (0)
// Is the body of an entry point, like RT_CALL, but needs no context.
#define RT_CALL_INITIALIZED(expression)                     \
	do {                                                \
		cudaError_t error_ = rt_initialize();       \
		if (error_ == cudaSuccess)                  \
			error_ = (cudaError_t)(expression); \
		return rt_record(error_);                   \
	} while (0)
// Returns from a helper function if `expression` is an error.
#define RT_TRY(expression)                                      \
	do {                                                    \
		cudaError_t error_ = (cudaError_t)(expression); \
		if (error_ != cudaSuccess)                      \
			return error_;                          \
	} while (0)
