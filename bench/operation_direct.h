// Calls cuBLASLt directly, as a program without this library does: the baseline of bench_operation. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "virgate/operation.h"

struct direct;

// Prepares a matrix multiplication without an epilogue in the current context. `description` must outlive the result.
// Prints the reason to standard error and returns NULL if cuBLASLt cannot be loaded.
struct direct *direct_create(const struct vg_matrix_multiply *description);
void direct_destroy(struct direct *direct);
size_t direct_workspace(const struct direct *direct);
// Queues the multiplication on the stream.
void direct_run(struct direct *direct, struct CUstream_st *stream, vg_address workspace);
// Returns the name of the algorithm.
const char *direct_says(const struct direct *direct);
