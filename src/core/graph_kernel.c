// Adds kernel nodes and changes them. Sets the attributes of a launch one by one, after the node was added.
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "core/kernel.h"
#include "core/launch.h"

struct description {
	struct core_graph_spec spec;
	struct core_launch launch;
	struct vg_kernel *kernel;
	void **values; // addresses of the values as the program gave them; owns this array, not the values
};

static enum vg_status refuse_serialization(const struct core_launch *launch)
{
	for (unsigned i = 0; i < launch->native.numAttrs; i++)
		if (launch->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			return vg_fail(VG_UNSUPPORTED, 0,
				       "programmatic serialization is between launches of a stream: a graph's nodes "
				       "have edges");
	return VG_OK;
}

static enum vg_status check_launch(const struct vg_graph_definition *definition, const struct vg_graph_kernel *k,
				   struct description *d)
{
	struct vg_launch_config config;
	struct vg_context *context = definition->context;

	CORE_USABLE(k->kernel, "kernel");
	if (!k->config)
		return vg_fail(VG_INVALID, 0, "config is NULL");
	CORE_TRY(vg_options_copy(&config, sizeof config, k->config));
	CORE_TRY(core_launch_configure(&d->launch, &config, context->device));
	CORE_TRY(refuse_serialization(&d->launch));
	d->values = calloc(k->kernel->parameter_count + 1, sizeof *d->values);
	if (!d->values)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %u arguments", k->kernel->parameter_count);
	CORE_TRY(core_launch_check_arguments(k->kernel, k->arguments, k->argument_count, d->values));
	// Check the limits now: some drivers accept any launch in a node, and later refuse to instantiate the graph.
	CORE_TRY(core_launch_check_limits(&d->launch, k->kernel, context->device));
	CORE_ENTER(scope, context->handle);
	return core_launch_check_cooperative(&d->launch, k->kernel, context);
}

static enum vg_status describe_kernel(const struct vg_graph_definition *definition,
				      const struct vg_graph_kernel *kernel, struct description *ret_description)
{
	struct vg_graph_kernel k;

	memset(ret_description, 0, sizeof *ret_description);
	CORE_TRY(core_graph_options(definition, &k, sizeof k, kernel, "kernel"));
	CORE_TRY(check_launch(definition, &k, ret_description));
	const CUlaunchConfig *native = &ret_description->launch.native;
	ret_description->kernel = k.kernel;
	ret_description->spec.native.type = CU_GRAPH_NODE_TYPE_KERNEL;
	ret_description->spec.native.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){
		.gridDimX = native->gridDimX,
		.gridDimY = native->gridDimY,
		.gridDimZ = native->gridDimZ,
		.blockDimX = native->blockDimX,
		.blockDimY = native->blockDimY,
		.blockDimZ = native->blockDimZ,
		.sharedMemBytes = native->sharedMemBytes,
		.kernelParams = ret_description->values,
		.kern = k.kernel->handle,
		.ctx = definition->context->handle,
	};
	ret_description->spec.keep = core_graph_keep_create(&k.kernel->object, NULL, NULL, 0);
	if (!ret_description->spec.keep)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph node");
	return VG_OK;
}

static CUresult set_attributes(CUgraphNode node, const struct core_launch *launch)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; i < launch->native.numAttrs && r == CUDA_SUCCESS; i++)
		r = core_driver->cuGraphKernelNodeSetAttribute(node, launch->attributes[i].id,
							       &launch->attributes[i].value);
	return r;
}

static enum vg_status add_kernel_node(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				      size_t count, struct description *d, struct vg_graph_node **ret_node)
{
	struct vg_graph_node *node;

	enum vg_status status = core_graph_add(definition, after, count, &d->spec, &node);
	if (status)
		return status;
	CORE_ENTER(scope, definition->context->handle);
	CUresult r = set_attributes(node->handle, &d->launch);
	if (r) {
		status = core_launch_failed(r, &d->launch, d->kernel, definition->context->device,
					    "cuGraphKernelNodeSetAttribute");
		core_graph_remove_added(node);
		return status;
	}
	if (ret_node)
		*ret_node = node;
	return VG_OK;
}

enum vg_status vg_graph_add_kernel(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				   size_t count, const struct vg_graph_kernel *kernel, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct description d;

	enum vg_status status = describe_kernel(definition, kernel, &d);
	if (status == VG_OK)
		status = add_kernel_node(definition, after, count, &d, ret_node);
	free(d.values);
	return status;
}

// ---- reading parameters -------------------------------------------------------------------------

static enum vg_status read_cluster(CUgraphNode node, unsigned ret_cluster[3], int *ret_cooperative)
{
	CUkernelNodeAttrValue value;

	CUresult r = core_driver->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value);
	if (r)
		return core_driver_failed(r, "cuGraphKernelNodeGetAttribute", "%s", "");
	// No cluster, and a cluster of one block, mean the same.
	bool none = value.clusterDim.x * value.clusterDim.y * value.clusterDim.z <= 1;
	ret_cluster[0] = none ? 0 : value.clusterDim.x;
	ret_cluster[1] = none ? 0 : value.clusterDim.y;
	ret_cluster[2] = none ? 0 : value.clusterDim.z;
	r = core_driver->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
	if (r)
		return core_driver_failed(r, "cuGraphKernelNodeGetAttribute", "%s", "");
	*ret_cooperative = value.cooperative != 0;
	return VG_OK;
}

static enum vg_status read_params(const struct vg_graph_node *node, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	CORE_ENTER(scope, node->definition->context->handle);
	CUresult r = core_driver->cuGraphKernelNodeGetParams_v2(node->handle, ret_params);
	return r ? core_driver_failed(r, "cuGraphKernelNodeGetParams", "%s", "") : VG_OK;
}

enum vg_status vg_graph_node_get_kernel(const struct vg_graph_node *node, struct vg_kernel **ret_kernel,
					struct CUkern_st **ret_handle)
{
	VG_ENTRY();
	CUDA_KERNEL_NODE_PARAMS params;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL));
	CORE_TRY(read_params(node, &params));
	if (ret_kernel)
		*ret_kernel = node->keep ? (struct vg_kernel *)node->keep->objects[0] : NULL;
	if (ret_handle)
		*ret_handle = params.kern;
	return VG_OK;
}

enum vg_status vg_graph_node_get_launch_config(const struct vg_graph_node *node, struct vg_launch_config *ret_config)
{
	VG_ENTRY();
	CUDA_KERNEL_NODE_PARAMS params;
	struct vg_launch_config config = {.size = sizeof config};

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL));
	CORE_NEEDED(ret_config);
	CORE_TRY(read_params(node, &params));
	CORE_TRY(read_cluster(node->handle, config.cluster, &config.cooperative));
	memcpy(config.grid, (unsigned[]){params.gridDimX, params.gridDimY, params.gridDimZ}, sizeof config.grid);
	memcpy(config.block, (unsigned[]){params.blockDimX, params.blockDimY, params.blockDimZ}, sizeof config.block);
	config.shared_memory = params.sharedMemBytes;
	for (int i = 0; i < 3 && config.cluster[0]; i++) // the driver counts blocks, this library counts clusters
		config.grid[i] /= config.cluster[i];
	*ret_config = config;
	return VG_OK;
}

// ---- setting them -------------------------------------------------------------------------------

// Checks that new parameters have the same attributes as the node. The driver does not change attributes with the
// parameters, and cannot change them in an executable graph.
static enum vg_status check_same_attributes(const struct vg_graph_node *node, const struct description *d)
{
	unsigned cluster[3];
	int cooperative;

	CORE_ENTER(scope, node->definition->context->handle);
	CORE_TRY(read_cluster(node->handle, cluster, &cooperative));
	const unsigned *asked = d->launch.cluster;
	bool none = asked[0] * asked[1] * asked[2] <= 1;
	bool same = none ? !cluster[0] : memcmp(cluster, asked, sizeof cluster) == 0;
	if (!same || cooperative != d->launch.cooperative)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "the kernel node has clusters of %u x %u x %u%s, which stay: instantiate a graph that "
			       "has others",
			       cluster[0], cluster[1], cluster[2], cooperative ? " and is cooperative" : "");
	return VG_OK;
}

enum vg_status vg_graph_node_set_kernel(struct vg_graph_node *node, const struct vg_graph_kernel *kernel)
{
	VG_ENTRY();
	struct description d;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL));
	enum vg_status status = describe_kernel(node->definition, kernel, &d);
	if (status == VG_OK)
		status = check_same_attributes(node, &d);
	if (status == VG_OK)
		status = core_graph_node_set(node, &d.spec);
	core_graph_spec_finish(&d.spec);
	free(d.values);
	return status;
}

enum vg_status vg_graph_set_kernel(struct vg_graph *graph, struct vg_graph_node *node,
				   const struct vg_graph_kernel *kernel)
{
	VG_ENTRY();
	struct description d;

	CORE_USABLE(graph, "graph");
	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_KERNEL));
	enum vg_status status = describe_kernel(node->definition, kernel, &d);
	if (status == VG_OK)
		status = check_same_attributes(node, &d);
	if (status == VG_OK)
		status = core_graph_exec_set(graph, node, &d.spec);
	core_graph_spec_finish(&d.spec);
	free(d.values);
	return status;
}
