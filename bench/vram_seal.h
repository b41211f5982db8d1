// Sealing and verifying regions, beside bringing their contents to the host: part of bench_vram.
#pragma once
#include "figures.h"

#include <stdbool.h>
#include <virgate/virgate.h>

void bench_seal(struct bench_report *report, struct vg_device *device, bool simulated);
