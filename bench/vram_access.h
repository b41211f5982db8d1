// Writes and reads through handles, beside the driver's own copies of the same memory: part of bench_vram.
#pragma once
#include "figures.h"

#include <stdbool.h>
#include <virgate/virgate.h>

void bench_access(struct bench_report *report, struct vg_device *device, bool on_simulator);
