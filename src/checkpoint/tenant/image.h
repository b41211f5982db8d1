// Reads tenants from virgate.json. One thread.
#pragma once
#include "checkpoint/tenant/tenant.h"

// Reads the tenants in a description. The caller frees them with tenants_free(). INTEGRITY, NO_MEMORY.
enum vg_status tenants_read(const json_t *description, struct tenants *ret_tenants);
// Formats a size in whole mebibytes, rounded up, as `virgate create --memory` accepts it. Returns `text`.
const char *tenant_memory_text(uint64_t bytes, char text[32]);
