// Between the copy files. Any thread.
#pragma once

#include "sim.h"

enum { SIM_STAGED = 64 << 10 }; // pageable sources up to this are copied when the call is made

// Checks and submits to the stream (NULL and so on as handles go).
CUresult sim_copy(CUstream stream, const CUDA_MEMCPY3D *copy, bool asynchronous);
bool sim_pageable(uintptr_t address);				   // host memory the driver does not know
bool sim_host_find(uintptr_t address, struct sim_pointer *ret_pointer); // host.c
