// Messages: to standard error, and in the driver's log of errors. Any thread.
#pragma once

#include "sim.h"

// Writes one sentence to standard error, after "virgate sim: ".
__attribute__((format(printf, 1, 2))) void sim_warn(const char *format, ...);
// Returns whether a status of the region means that the node's directory is full. Reports that once in the process.
bool sim_report_no_space(int status, size_t bytes);
// Adds one sentence to the driver's log of errors (log.c). The caller must not have the memory lock: callbacks run.
__attribute__((format(printf, 1, 2))) void sim_log(const char *format, ...);
const char *sim_error_name(CUresult error);
