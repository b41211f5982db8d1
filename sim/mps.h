// Declares what a client of MPS does (`mps=1` in the configuration) on a device that shares its time. All clients share
// one context. A fault of one client fails all clients that have a context on the same device. Any thread.
#pragma once

#include "sim.h"

// Reads which part of the multiprocessors this process may use. cuInit calls it before any other driver call can run.
CUresult sim_mps_start(void);
bool sim_mps_is_client(void);
void sim_mps_join_device(struct sim_device *device); // called when the process gets a context on the device
// Makes the other clients on the context's device fail.
void sim_mps_publish_failure(const struct sim_context *context, CUresult error);
// Sets this process's sticky error if another client has failed.
void sim_mps_check_failure(void);
