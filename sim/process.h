// Between process.c and those it starts and stops. Any thread.
#pragma once

#include "sim.h"

CUresult sim_address_start(void);  // address.c: tables for the window
bool sim_work_pending(void);	   // context.c: some stream of some context is not idle
void *sim_host_translate(void *device, uint64_t address, size_t length, bool write); // host.c
