// Measures writes and reads through handles beside the driver's own copies, as a part of bench_vram. One thread.
#pragma once
#include "figures.h"

#include <stdbool.h>
#include <virgate/virgate.h>

void bench_access(struct bench_report *report, struct vg_device *device, bool on_simulator);
