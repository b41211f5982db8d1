// Clients of MPS (`mps=1`) on devices that share their time. The clients share one context, and a fault of one fails
// all clients that have a context on its device. Any thread.
#pragma once

#include "sim.h"

// Reads which part of the multiprocessors this process may use. cuInit calls it before any other driver call can run.
CUresult sim_mps_start(void);
bool sim_mps_is_client(void);
void sim_mps_join_device(struct sim_device *device); // called when the process gets a context on the device
// Fails the other clients on the context's device.
void sim_mps_publish_failure(const struct sim_context *context, CUresult error);
// Fails this process if another client has failed.
void sim_mps_check_failure(void);
