#include "core/graph_definition.h"
#include "virgate/graph_node.h"

enum vg_status core_graph_host_spec(void (*callback)(void *data), const void *data, size_t size, const char *function,
				    struct core_graph_spec *ret_spec)
{
	if (!callback)
		return vg_fail(VG_INVALID, 0, function, "the callback is NULL");
	if (size && !data)
		return vg_fail(VG_INVALID, 0, function, "data is NULL, and its size is %zu", size);
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_HOST};
	ret_spec->native.host.fn = callback;
	ret_spec->native.host.userData = (void *)data;
	if (!size)
		return VG_OK;
	ret_spec->keep = core_graph_keep_create(NULL, NULL, data, size);
	if (!ret_spec->keep)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a copy of %zu bytes", size);
	ret_spec->native.host.userData = ret_spec->keep->data;
	return VG_OK;
}
