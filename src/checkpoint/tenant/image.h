// Tenants in virgate.json. One thread.
#pragma once
#include "checkpoint/tenant/tenant.h"

// Reads them. The caller frees them with tenants_free(). INTEGRITY, NO_MEMORY.
enum vg_status tenants_read(const json_t *description, struct tenants *ret_tenants);
// Formats whole mebibytes, rounded up, as `virgate create --memory` reads them. Returns `text`.
const char *tenant_memory_text(uint64_t bytes, char text[32]);
