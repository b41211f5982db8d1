// cuBLASLt called directly, as a program without this library would: what bench_operation compares with.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "virgate/operation.h"

struct direct;

// In the context that is current, for a matrix multiplication without an epilogue. NULL, with the reason on stderr,
// where cuBLASLt has nothing for it.
struct direct *direct_create(const struct vg_matrix_multiply *description);
void direct_destroy(struct direct *direct);
size_t direct_workspace(const struct direct *direct);
// Queues it.
void direct_run(struct direct *direct, struct CUstream_st *stream, vg_address workspace);
// Which algorithm.
const char *direct_says(const struct direct *direct);
