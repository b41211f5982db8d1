#include "core/buffer.h"
#include "core/graph_definition.h"
#include "virgate/graph_node.h"

// Checks what was asked, and says it in the driver's terms; `spec` then owns its keep.
static enum vg_status describe(const struct vg_graph_definition *definition, const struct vg_graph_memset *memset,
			       const char *function, struct core_graph_spec *ret_spec)
{
	struct vg_graph_memset m;
	enum vg_status status = core_graph_check(definition, "definition", function);

	if (status == VG_OK && !memset)
		status = vg_fail(VG_INVALID, 0, function, "memset is NULL");
	if (status == VG_OK)
		status = core_options(&m, sizeof m, memset, function);
	if (status == VG_OK && m.destination_buffer)
		status = core_object_check(&m.destination_buffer->object, "destination_buffer", function);
	if (status)
		return status;
	m.element_size += !m.element_size;
	m.height += !m.height;
	if (m.element_size != 1 && m.element_size != 2 && m.element_size != 4)
		return vg_fail(VG_INVALID, 0, function, "elements of %u bytes: they may have 1, 2 or 4", m.element_size);
	if (m.element_size < 4 && m.value >> 8 * m.element_size)
		return vg_fail(VG_INVALID, 0, function, "value %#x does not fit in an element of %u bytes", m.value,
			       m.element_size);
	if (!m.width)
		return vg_fail(VG_INVALID, 0, function, "rows of 0 elements: there is nothing to set");
	if (m.height > 1 && m.pitch / m.element_size < m.width)
		return vg_fail(VG_INVALID, 0, function, "a pitch of %zu bytes is less than a row: %zu elements of %u bytes",
			       m.pitch, m.width, m.element_size);
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_MEMSET};
	ret_spec->native.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = m.destination, .pitch = m.pitch, .value = m.value,
		.elementSize = m.element_size, .width = m.width, .height = m.height, .ctx = definition->context->handle};
	if (m.destination_buffer &&
	    !(ret_spec->keep = core_graph_keep_create(&m.destination_buffer->object, NULL, NULL, 0)))
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a graph node");
	return VG_OK;
}

enum vg_status vg_graph_add_memset(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				   size_t count, const struct vg_graph_memset *memset, struct vg_graph_node **ret_node)
{
	struct core_graph_spec spec;
	enum vg_status status = describe(definition, memset, __func__, &spec);

	return status ? status : core_graph_add(definition, after, count, &spec, __func__, ret_node);
}
