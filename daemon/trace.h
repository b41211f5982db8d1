// Records for `virgate trace` what the vGPUs did, and what their programs counted. The recording lasts while clients
// request it, and TRACE_LEASE_S longer. All clients read the same records. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// TRACE_LEASE_S: for how many seconds the recording continues after the last request. TRACE_RECORDS, TRACE_TENANTS: the
// most records and processes in one answer.
enum { TRACE_LEASE_S = 3, TRACE_RECORDS = 1024, TRACE_TENANTS = 512 };

struct trace_query {
	uint64_t after;	  // the answer has the records with larger numbers
	bool begins;	  // the answer has no records; `after` is ignored
	bool lists_vgpus; // the answer has the counters of all vGPUs
};

// Begins or continues the recording, and answers the query. Of other users' vGPUs, leaves out the programs and what
// they counted.
json_t *trace_list(struct node *node, const struct authority_peer *peer, const struct trace_query *query);
// Ends the recording if no client has requested it for TRACE_LEASE_S. Lowers *deadline to the time at which it ends.
void trace_expire(struct node *node, uint64_t now, uint64_t *deadline);
