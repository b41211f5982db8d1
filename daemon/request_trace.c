// Handles the verb `trace`: answers with the records since the client's last request, and with the present counters.
#include "daemon/request_parts.h"
#include "daemon/trace.h"

json_t *answer_trace(const struct request *request)
{
	const json_t *after = json_object_get(request->object, "after");
	struct trace_query query = {.begins = !after || json_is_null(after),
				    .lists_vgpus = !json_is_false(json_object_get(request->object, "counters"))};

	if (query.begins)
		return trace_list(request->node, request->peer, &query);
	if (!json_is_integer(after) || json_integer_value(after) < 0)
		return refuse("invalid", "\"after\" must be a number from 0 to %lld", (long long)INT64_MAX);
	query.after = (uint64_t)json_integer_value(after);
	return trace_list(request->node, request->peer, &query);
}
