// Writes messages to standard error, and to the driver's log of errors. Any thread.
#pragma once

#include "sim.h"

// Writes one sentence to standard error, after "virgate sim: ".
__attribute__((format(printf, 1, 2))) void sim_warn(const char *format, ...);
// Returns whether a result of a region_…() function means that the node's directory is full. Reports that once in the
// process.
bool sim_report_no_space(int status, size_t bytes);
// Adds one sentence to the driver's log of errors (log.c). This calls functions of the program, so the caller must not
// hold the memory lock.
__attribute__((format(printf, 1, 2))) void sim_log(const char *format, ...);
const char *sim_error_name(CUresult error);
