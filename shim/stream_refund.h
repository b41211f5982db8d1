// Refunds of memory that is freed in stream order: they wait until the stream has reached the free. Any thread.
#pragma once
#include <stdbool.h>

#include "abi/cuda_abi.h"

struct shim_record;

// Refunds a record when `stream` has done all work that was queued until now. is_per_thread: a NULL stream means the
// thread's default stream.
void shim_stream_refund(const struct shim_record *record, bool is_per_thread, CUstream stream);
// Refunds what streams have reached.
void shim_stream_refunds_reconcile(void);
