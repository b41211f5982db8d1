// Adds memset and memcpy nodes and changes them.
#include "core/buffer.h"
#include "core/graph.h"

// Checks a buffer in the parameters of a node. The buffer may be NULL.
static enum vg_status check_buffer(const struct vg_buffer *buffer, const char *name)
{
	return buffer ? core_object_check(&buffer->object, name) : VG_OK;
}

static enum vg_status keep_buffers(struct core_graph_spec *spec, struct vg_buffer *first, struct vg_buffer *second)
{
	if (!first && !second)
		return VG_OK;
	spec->keep = core_graph_keep_create(first ? &first->object : NULL, second ? &second->object : NULL, NULL, 0);
	return spec->keep ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for a graph node");
}

static struct vg_buffer *kept_buffer(const struct vg_graph_node *node, int which)
{
	return node->keep ? (struct vg_buffer *)node->keep->objects[which] : NULL;
}

// Defines the three public functions that use describe_KIND(): one adds a node, one sets its parameters, and one sets
// them in an executable graph.
#define COPY_NODE(kind, KIND)                                                                                          \
	enum vg_status vg_graph_add_##kind(struct vg_graph_definition *definition, struct vg_graph_node *const *after, \
					   size_t count, const struct vg_graph_##kind *kind,                           \
					   struct vg_graph_node **ret_node)                                            \
	{                                                                                                              \
		VG_ENTRY();                                                                                            \
		struct core_graph_spec spec;                                                                           \
		enum vg_status status = describe_##kind(definition, kind, &spec);                                      \
		return status ? status : core_graph_add(definition, after, count, &spec, ret_node);                    \
	}                                                                                                              \
	enum vg_status vg_graph_node_set_##kind(struct vg_graph_node *node, const struct vg_graph_##kind *kind)        \
	{                                                                                                              \
		VG_ENTRY();                                                                                            \
		struct core_graph_spec spec;                                                                           \
		CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_##KIND));                                 \
		enum vg_status status = describe_##kind(node->definition, kind, &spec);                                \
		return status ? status : core_graph_node_set(node, &spec);                                             \
	}                                                                                                              \
	enum vg_status vg_graph_set_##kind(struct vg_graph *graph, struct vg_graph_node *node,                         \
					   const struct vg_graph_##kind *kind)                                         \
	{                                                                                                              \
		VG_ENTRY();                                                                                            \
		struct core_graph_spec spec;                                                                           \
		CORE_USABLE(graph, "graph");                                                                           \
		CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_##KIND));                                 \
		enum vg_status status = describe_##kind(node->definition, kind, &spec);                                \
		return status ? status : core_graph_exec_set(graph, node, &spec);                                      \
	}

// ---- memset -------------------------------------------------------------------------------------

static enum vg_status check_memset(struct vg_graph_memset *m)
{
	m->element_size += !m->element_size;
	m->height += !m->height;
	if (m->element_size != 1 && m->element_size != 2 && m->element_size != 4)
		return vg_fail(VG_INVALID, 0, "elements of %u bytes: they may have 1, 2 or 4", m->element_size);
	if (m->element_size < 4 && m->value >> 8 * m->element_size)
		return vg_fail(VG_INVALID, 0, "value %#x does not fit in an element of %u byte%s", m->value,
			       m->element_size, m->element_size == 1 ? "" : "s");
	if (!m->width)
		return vg_fail(VG_INVALID, 0, "rows of 0 elements: there is nothing to set");
	if (m->height > 1 && m->pitch / m->element_size < m->width)
		return vg_fail(VG_INVALID, 0, "a pitch of %zu bytes is less than a row: %zu elements of %u bytes",
			       m->pitch, m->width, m->element_size);
	return check_buffer(m->destination_buffer, "destination_buffer");
}

static enum vg_status describe_memset(const struct vg_graph_definition *definition,
				      const struct vg_graph_memset *memset, struct core_graph_spec *ret_spec)
{
	struct vg_graph_memset m;

	CORE_TRY(core_graph_options(definition, &m, sizeof m, memset, "memset"));
	CORE_TRY(check_memset(&m));
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_MEMSET};
	ret_spec->native.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
		.dst = m.destination,
		.pitch = m.pitch,
		.value = m.value,
		.elementSize = m.element_size,
		.width = m.width,
		.height = m.height,
		.ctx = definition->context->handle,
	};
	return keep_buffers(ret_spec, m.destination_buffer, NULL);
}

COPY_NODE(memset, MEMSET)

enum vg_status vg_graph_node_get_memset(const struct vg_graph_node *node, struct vg_graph_memset *ret_memset)
{
	VG_ENTRY();
	CUDA_MEMSET_NODE_PARAMS_v1 params;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_MEMSET));
	CORE_NEEDED(ret_memset);
	CORE_CALL(cuGraphMemsetNodeGetParams, node->handle, &params);
	*ret_memset = (struct vg_graph_memset){
		.size = sizeof *ret_memset,
		.destination = params.dst,
		.value = params.value,
		.element_size = params.elementSize,
		.width = params.width,
		.height = params.height,
		.pitch = params.pitch,
		.destination_buffer = kept_buffer(node, 0),
	};
	return VG_OK;
}

// ---- memcpy -------------------------------------------------------------------------------------

// Returns the type of the memory at an address. An address that the driver does not know is in ordinary host memory.
static CUmemorytype memory_type(vg_address address)
{
	CUmemorytype type;
	CUresult r = core_asked(core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));

	return r == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static enum vg_status describe_memcpy(const struct vg_graph_definition *definition,
				      const struct vg_graph_memcpy *memcpy, struct core_graph_spec *ret_spec)
{
	struct vg_graph_memcpy m;

	CORE_TRY(core_graph_options(definition, &m, sizeof m, memcpy, "memcpy"));
	CORE_TRY(check_buffer(m.destination_buffer, "destination_buffer"));
	CORE_TRY(check_buffer(m.source_buffer, "source_buffer"));
	if (!m.bytes)
		return vg_fail(VG_INVALID, 0, "a copy of 0 bytes: there is nothing to copy");
	if (!m.destination || !m.source)
		return vg_fail(VG_INVALID, 0, "the copy's %s is address 0", m.destination ? "source" : "destination");
	CORE_ENTER(scope, definition->context->handle);
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	ret_spec->native.memcpy.copyCtx = definition->context->handle;
	CUDA_MEMCPY3D *copy = &ret_spec->native.memcpy.copyParams;
	*copy = (CUDA_MEMCPY3D){.WidthInBytes = m.bytes, .Height = 1, .Depth = 1};
	copy->srcMemoryType = memory_type(m.source);
	copy->dstMemoryType = memory_type(m.destination);
	if (copy->srcMemoryType == CU_MEMORYTYPE_HOST)
		copy->srcHost = (const void *)(uintptr_t)m.source;
	else
		copy->srcDevice = m.source;
	if (copy->dstMemoryType == CU_MEMORYTYPE_HOST)
		copy->dstHost = (void *)(uintptr_t)m.destination;
	else
		copy->dstDevice = m.destination;
	return keep_buffers(ret_spec, m.destination_buffer, m.source_buffer);
}

COPY_NODE(memcpy, MEMCPY)

enum vg_status vg_graph_node_get_memcpy(const struct vg_graph_node *node, struct vg_graph_memcpy *ret_memcpy)
{
	VG_ENTRY();
	CUDA_MEMCPY3D copy;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_MEMCPY));
	CORE_NEEDED(ret_memcpy);
	CORE_CALL(cuGraphMemcpyNodeGetParams, node->handle, &copy);
	*ret_memcpy = (struct vg_graph_memcpy){
		.size = sizeof *ret_memcpy,
		.destination = copy.dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy.dstHost : copy.dstDevice,
		.source = copy.srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy.srcHost : copy.srcDevice,
		.bytes = copy.WidthInBytes * copy.Height * copy.Depth,
		.destination_buffer = kept_buffer(node, 0),
		.source_buffer = kept_buffer(node, 1),
	};
	return VG_OK;
}
