// Copies a list of pieces of device memory in one launch, and compares the copies in another launch. Needs no device
// memory, because the list is in page-locked host memory. One thread at a time.
#pragma once
#include "core/stream.h"
#include "kernels/move.h"

#include <stdbool.h>

struct space_mover;

enum { SPACE_MOVER_PIECES = 16384 };

// Creates a mover. Call with the context current. Fails with NO_MEMORY or DRIVER.
enum vg_status space_mover_create(struct space_mover **ret_mover);
// Destroys the mover. None of its kernels may be running. Accepts NULL.
void space_mover_destroy(struct space_mover *mover);

// space_mover_count() returns the number of pieces in the list. space_mover_cut() removes all pieces after the first
// `count`.
uint32_t space_mover_count(const struct space_mover *mover);
void space_mover_cut(struct space_mover *mover, uint32_t count);
// Adds a piece. Addresses must be multiples of 16; the size is rounded up to 16. Returns false if the list is full.
bool space_mover_add(struct space_mover *mover, CUdeviceptr to, CUdeviceptr from, size_t bytes);
// Copies and compares the pieces, and waits for the end. Adds the device's milliseconds to both counters. Call with the
// context current. Fails with DRIVER, or with INTEGRITY if a copy differs from its source.
enum vg_status space_mover_run(struct space_mover *mover, struct vg_stream *stream, double *copy_ms, double *verify_ms);

// For tests: sets a function to call between the copies and the comparison. NULL: none.
void space_mover_set_between(void (*between)(const struct move_piece *pieces, size_t count));
