// Refunds memory that is freed in stream order, after the stream has reached the free. Any thread.
#pragma once
#include <stdbool.h>

#include "abi/cuda_abi.h"

struct shim_record;

// Refunds a record once `stream` has done all work that is queued now. is_per_thread: a NULL stream means the thread's
// own default stream.
void shim_stream_refund(const struct shim_record *record, bool is_per_thread, CUstream stream);
// Refunds the records whose streams have reached the free.
void shim_stream_refunds_reconcile(void);
