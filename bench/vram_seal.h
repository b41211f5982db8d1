// Measures sealing and verifying of regions beside a copy of their contents to the host, as a part of bench_vram. One
// thread.
#pragma once
#include "figures.h"

#include <stdbool.h>
#include <virgate/virgate.h>

void bench_seal(struct bench_report *report, struct vg_device *device, bool simulated);
