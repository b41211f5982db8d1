// Ends vGPUs of jobs that are over. They are left if the node or its daemon was down when the job's epilog ran. As
// root; one thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

// Ends each vGPU "slurm-ID" whose job is not on this node any more, as the controller reports. Leaves out the job
// `except`; 0: none. Returns how many vGPUs it has ended: 0 if the controller does not answer.
unsigned leftover_end_all(const struct settings *settings, const char *node_name, uint32_t except);
