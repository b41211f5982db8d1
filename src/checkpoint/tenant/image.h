// What virgate.json says of tenants. One thread.
#pragma once
#include "checkpoint/tenant/tenant.h"

// To be given back with tenants_free(). INTEGRITY, NO_MEMORY.
enum vg_status tenants_read(const json_t *description, struct tenants *ret_tenants);
// As `virgate create --memory` reads it: whole mebibytes, rounded up. Returns `text`.
const char *tenant_memory_text(uint64_t bytes, char text[32]);
