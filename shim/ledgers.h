// Opens the ledgers of this process's vGPUs, which the environment names. Once at the start, one thread.
#pragma once
#include "turn/gang.h"

enum { SHIM_DEVICES = TURN_PARTS };

struct vg_ledger;

// Opens the ledgers of all vGPUs of the job, in the order of their devices; outside a job, the ledger of the vGPU.
// Stores at most SHIM_DEVICES of them and returns their number; 0: this process is in no vGPU. On failure returns
// -errno, and stores the path or the list that the environment names. It is valid until the environment changes.
int shim_ledgers_open(struct vg_ledger **ret_ledgers, const char **ret_path);
// Returns a message for an error that shim_ledgers_open() has returned.
const char *shim_ledgers_error(int error);
