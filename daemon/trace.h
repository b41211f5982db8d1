// Traces: what the vGPUs did, and what their programs counted, for `virgate trace`. A trace is recorded while a client
// asks for it, and for TRACE_LEASE_S afterwards. All clients read the same records. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// An answer has at most so many records and processes.
enum { TRACE_LEASE_S = 3, TRACE_RECORDS = 1024, TRACE_TENANTS = 512 };

// Begins or continues the recording, and lists the records with numbers above `after`, and the counters of all vGPUs.
// If `begins` is true, lists no records. Of other users' vGPUs, leaves out the programs and what they counted.
json_t *trace_list(struct node *node, const struct authority_peer *peer, uint64_t after, bool begins);
// Ends the recording if no client has asked for long enough. Lowers *deadline to that time.
void trace_expire(struct node *node, uint64_t now, uint64_t *deadline);
