// Between op.c, stream.c and context.c. Any thread.
#pragma once

#include "sim.h"

// Creates and joins it to its context. Green streams pass their green context.
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority);
void sim_stream_ref(struct sim_stream *stream);
void sim_stream_unref(struct sim_stream *stream);
// The handle is gone; what is queued still runs.
void sim_stream_close(struct sim_stream *stream);
// With context->lock held: a closed stream that is idle leaves its context, and the handle's
// reference goes.
void sim_stream_retire(struct sim_stream *stream);
void sim_stream_drain(struct sim_stream *stream);
// Waits while another thread waits for room in a queue of the context. The driver holds up some calls then.
void sim_context_wait_for_room(struct sim_context *context);
