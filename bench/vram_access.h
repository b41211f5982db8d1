// Writes and reads through handles, beside the driver's own copies of the same memory: part of bench_vram.
#pragma once
#include "figures.h"

#include <stdbool.h>
#include <virgate/virgate.h>

void bench_access(struct bench_report *report, struct vg_device *device, bool on_simulator);
// Of bench_vram.c: ends the program unless the status is VG_OK.
void check(enum vg_status status);
// Likewise: words that differ, for the caller to free. Equal ones need less power, and may let a GPU run faster than it
// does with real contents.
uint64_t *make_noise(size_t size);
