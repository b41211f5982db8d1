// vGPUs of jobs that are over: the node or its daemon was down when their epilog ran. For root; one thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

// Ends each vGPU "slurm-ID" whose job is not on this node any more, according to the controller, except that of the job
// `except` (0: none). Returns how many it has ended. If the controller does not answer, it ends none.
unsigned leftover_end_all(const struct settings *settings, const char *node_name, uint32_t except);
