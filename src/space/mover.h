// Copies of device memory by one launch for a list of them, and their comparison by another. Needs no device memory:
// the list lies in page-locked memory of the host. One thread at a time.
#pragma once
#include "core/stream.h"
#include "kernels/move.h"

#include <stdbool.h>

struct space_mover;

enum { SPACE_MOVER_PIECES = 16384 };

// In the context. NO_MEMORY, DRIVER.
enum vg_status space_mover_create(struct space_mover **ret_mover);
// Nothing of it may be running. NULL is fine.
void space_mover_destroy(struct space_mover *mover);

// The list's length, and what is behind that many goes again.
uint32_t space_mover_count(const struct space_mover *mover);
void space_mover_cut(struct space_mover *mover, uint32_t count);
// Addresses are multiples of 16; bytes are rounded up to 16. False: the list is full.
bool space_mover_add(struct space_mover *mover, CUdeviceptr to, CUdeviceptr from, size_t bytes);
// In the context; over when it returns, whatever it returns. Adds the device's milliseconds to the two. DRIVER;
// INTEGRITY (a copy is not what its source is).
enum vg_status space_mover_run(struct space_mover *mover, struct vg_stream *stream, double *copy_ms, double *verify_ms);

// For tests: called when everything has been copied, and before it is compared. NULL: nothing is.
void space_mover_set_between(void (*between)(const struct move_piece *pieces, size_t count));
