// Between context.c, primary.c, green.c and memory.c. Any thread.
#pragma once

#include "sim.h"

enum { SIM_STACK_DEFAULT = 1024 };

// `parent` NULL: a context of its own, which costs device memory; else a view of the parent
// (green contexts). `revive`: an ended context to make anew under the same handle, or NULL.
CUresult sim_context_new(struct sim_device *device, unsigned flags, struct sim_context *parent,
			 struct sim_context *revive, struct sim_context **ret_context);
// Ends its work, frees what it holds. The struct stays.
void sim_context_end(struct sim_context *context);
// What sim_context_get() gave for the handle: a device's primary context that nobody retains now.
bool sim_context_inactive(CUcontext handle, CUresult result);
// The calling thread's current context, also an inactive one.
CUresult sim_context_of_stack(struct sim_context **ret_context);
CUresult sim_context_set_current(struct sim_context *context);
// With the memory lock held: memory that the driver takes for itself. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_driver_take(struct sim_device *device, size_t size, struct sim_physical **ret_physical);
void sim_memory_context_finish(struct sim_context *context); // memory.c
CUresult sim_primary_retain(struct sim_device *device, struct sim_context **ret_context); // primary.c
CUresult sim_primary_release(struct sim_device *device, bool reset);
// context_event.c; `green` not NULL: for the streams of that green context only. Records an event behind all streams.
CUresult sim_context_record(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Orders all streams behind an event.
CUresult sim_context_wait(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Orders a new stream behind the events that its context waits for.
void sim_context_admit(struct sim_stream *stream);
void sim_context_forget_waits(struct sim_context *context);
