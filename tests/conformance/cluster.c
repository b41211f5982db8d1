// Tests thread block clusters: valid and invalid shapes, ranks, occupancy, barriers between blocks.
#include "conformance.h"

static const char ptx_cluster[] =
	".version 8.1\n.target sm_90\n.address_size 64\n"
	".visible .entry where(.param .u64 to) {\n"
	"	.reg .b64 %a, %o;\n	.reg .b32 %b, %c, %n, %r, %s;\n"
	"	ld.param.u64 %a, [to];\n	mov.u32 %b, %ctaid.x;\n	mul.wide.u32 %o, %b, 16;\n	add.u64 %a, "
	"%a, %o;\n"
	"	mov.u32 %c, %clusterid.x;\n	mov.u32 %n, %nclusterid.x;\n	mov.u32 %r, %cluster_ctarank;\n"
	"	mov.u32 %s, %cluster_nctarank;\n"
	"	st.global.u32 [%a], %c;\n	st.global.u32 [%a+4], %n;\n	st.global.u32 [%a+8], %r;\n"
	"	st.global.u32 [%a+12], %s;\n	ret;\n}\n"
	".visible .entry fixed() .reqnctapercluster 4, 1, 1 { ret; }\n"
	".visible .entry free() { ret; }\n"
	".visible .entry meeting() { barrier.cluster.arrive; barrier.cluster.wait; ret; }\n"
	// Each thread gives its number to the next block, and adds to a word of the block with rank 0.
	".visible .entry give(.param .u64 to) {\n"
	"	.reg .b64 %a, %o, %g, %m;\n	.reg .b32 %t, %b, %d, %r, %n, %x, %y, %s, %z, %k;\n"
	"	.reg .pred %p, %q;\n"
	"	.shared .align 8 .b8 s[512];\n"
	"	ld.param.u64 %a, [to];\n	mov.u32 %t, %tid.x;\n	mov.u32 %b, %ctaid.x;\n	mov.u32 %d, %ntid.x;\n"
	"	mad.lo.u32 %b, %b, %d, %t;\n	mul.wide.u32 %o, %b, 16;\n	add.u64 %a, %a, %o;\n"
	"	mov.u32 %r, %cluster_ctarank;\n	mov.u32 %n, %cluster_nctarank;\n"
	"	add.u32 %x, %r, 1;\n	setp.eq.u32 %p, %x, %n;\n	selp.u32 %x, 0, %x, %p;\n" // next block
	"	mov.u32 %s, s;\n	setp.eq.u32 %q, %t, 0;\n	@%q st.shared.u32 [%s], 0;\n"
	"	barrier.cluster.arrive;\n	barrier.cluster.wait;\n"
	"	mapa.shared::cluster.u32 %y, %s, %x;\n	mad.lo.u32 %y, %t, 4, %y;\n"
	"	st.shared::cluster.u32 [%y+4], %b;\n"
	"	mov.u64 %g, s;\n	cvta.shared.u64 %g, %g;\n	mapa.u64 %m, %g, 0;\n"
	"	atom.add.u32 %z, [%m], 1;\n"
	"	getctarank.u64 %k, %m;\n"
	"	isspacep.shared::cta %p, %m;\n	isspacep.shared::cluster %q, %m;\n	selp.u32 %x, 1, 0, %p;\n"
	"	selp.u32 %d, 2, 0, %q;\n	or.b32 %x, %x, %d;\n	mad.lo.u32 %k, %k, 16, %x;\n"
	"	barrier.cluster.arrive.release;\n	barrier.cluster.wait.acquire;\n"
	"	mad.lo.u32 %y, %t, 4, %s;\n	ld.shared.u32 %y, [%y+4];\n	ld.u32 %z, [%m];\n"
	"	st.global.u32 [%a], %y;\n	st.global.u32 [%a+4], %z;\n	st.global.u32 [%a+8], %k;\n"
	"	barrier.cluster.arrive;\n	barrier.cluster.wait;\n	ret;\n}\n"
	// Thread 0 stores four words and adds to one in the next block; all threads of that block wait for these bytes.
	".visible .entry send(.param .u64 to) {\n"
	"	.reg .b64 %a, %o;\n	.reg .b32 %t, %b, %r, %n, %x, %s, %m, %y, %z, %d;\n	.reg .pred %p, %q;\n"
	"	.shared .align 16 .b8 s[64];\n	.shared .align 8 .b64 bar;\n"
	"	ld.param.u64 %a, [to];\n	mov.u32 %t, %tid.x;\n	mov.u32 %b, %ctaid.x;\n	mov.u32 %d, %ntid.x;\n"
	"	mad.lo.u32 %d, %b, %d, %t;\n	mul.wide.u32 %o, %d, 16;\n	add.u64 %a, %a, %o;\n"
	"	mov.u32 %r, %cluster_ctarank;\n	mov.u32 %n, %cluster_nctarank;\n"
	"	add.u32 %x, %r, 1;\n	setp.eq.u32 %p, %x, %n;\n	selp.u32 %x, 0, %x, %p;\n"
	"	mov.u32 %s, s;\n	mov.u32 %m, bar;\n	setp.eq.u32 %q, %t, 0;\n"
	"	@%q st.shared.u32 [%s+16], 1000;\n	@%q mbarrier.init.shared::cta.b64 [%m], 1;\n"
	"	@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 20;\n"
	"	fence.mbarrier_init.release.cluster;\n	barrier.cluster.arrive;\n	barrier.cluster.wait;\n"
	"	mapa.shared::cluster.u32 %y, %s, %x;\n	mapa.shared::cluster.u32 %z, %m, %x;\n"
	"	@%q st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%y], {%b, %r, %n, %x}, [%z];\n"
	"	@%q red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%y+16], %b, [%z];\n"
	"again:\n	mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], 0;\n	@!%p bra again;\n"
	"	ld.shared.v4.u32 {%x, %y, %z, %d}, [%s];\n	ld.shared.u32 %z, [%s+16];\n"
	"	st.global.v4.u32 [%a], {%x, %y, %z, %d};\n"
	"	barrier.cluster.arrive;\n	barrier.cluster.wait;\n	ret;\n}\n";

static CUmodule module;

static void need_clusters(void)
{
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device));
	if (!supported)
		SKIP("no clusters on this device");
	if (!module)
		module = need_module(ptx_cluster);
}

static CUresult launch(const char *name, unsigned blocks, unsigned cluster, void **arguments)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				       .value.clusterDim = {cluster, 1, 1}};
	CUlaunchConfig config = {.gridDimX = blocks,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = cluster ? 1 : 0};

	return cuLaunchKernelEx(&config, need_function(module, name), arguments, NULL);
}

CONFORM(blocks_know_their_cluster)
{
	unsigned seen[8][4];
	CUdeviceptr to = 0;

	need_clusters();
	NEED(cuMemAlloc(&to, sizeof seen));
	void *arguments[] = {&to};
	NEED(launch("where", 8, 2, arguments));
	WORKS(cuMemcpyDtoH(seen, to, sizeof seen));
	for (unsigned i = 0; i < 8; i++) {
		EQUALS(seen[i][0], i / 2);
		EQUALS(seen[i][1], 4);
		EQUALS(seen[i][2], i % 2);
		EQUALS(seen[i][3], 2);
	}
	NEED(launch("where", 8, 0, arguments)); // without a cluster size, each block is a cluster of its own
	WORKS(cuMemcpyDtoH(seen, to, sizeof seen));
	EQUALS(seen[5][0], 5);
	EQUALS(seen[5][2], 0);
	EQUALS(seen[5][3], 1);
	WORKS(cuMemFree(to));
}

CONFORM(shapes)
{
	CUfunction fixed, free;
	int value = 0;

	need_clusters();
	fixed = need_function(module, "fixed");
	free = need_function(module, "free");
	WORKS(launch("free", 8, 8, NULL));
	GIVES(launch("free", 9, 2, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE); // the grid must consist of whole clusters
	GIVES(launch("free", 32, 32, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	WORKS(launch("fixed", 8, 0, NULL)); // uses the cluster size that was compiled in
	WORKS(launch("fixed", 8, 4, NULL));
	GIVES(launch("fixed", 8, 2, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	GIVES(launch("fixed", 6, 0, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, fixed));
	EQUALS(value, 4);
	GIVES(cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, free));
	EQUALS(value, 0);
	WORKS(cuCtxSynchronize());
}

CONFORM(occupancy)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
	CUlaunchConfig config = {.gridDimX = 16,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 128,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = 1};
	int size = 0, two = 0, four = 0;
	CUfunction free;

	need_clusters();
	free = need_function(module, "free");
	WORKS(cuOccupancyMaxPotentialClusterSize(&size, free, &config));
	BETWEEN(size, 8, 16); // every device with clusters supports a size of eight
	WORKS(cuOccupancyMaxActiveClusters(&two, free, &config));
	HOLDS(two > 0);
	int major = 0, minor = 0, sms = 0;
	NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	NEED(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
	NEED(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	if (major == 9 && minor == 0)
		// a multiprocessor has room for 16 of these blocks, but the driver counts at most 8 blocks of clusters
		EQUALS(two, sms * 8 / 2);
	attribute.value.clusterDim.x = 4;
	WORKS(cuOccupancyMaxActiveClusters(&four, free, &config));
	BETWEEN(four, 1, two / 2);
	config.numAttrs = 0;
	WORKS(cuOccupancyMaxActiveClusters(&four, free, &config));
	EQUALS(four, 0); // a launch without a cluster size has no clusters
	config.numAttrs = 1;
	GIVES(cuOccupancyMaxPotentialClusterSize(NULL, free, &config), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuOccupancyMaxActiveClusters(&two, free, NULL), CUDA_ERROR_INVALID_VALUE);
}

// Compares the occupancy with the driver's results on an H200. A multiprocessor runs at most 8 blocks. Clusters of more
// than two blocks cannot use 8 of the multiprocessors.
CONFORM(occupancy_of_132_multiprocessors)
{
	static const struct {
		unsigned threads;
		int active[4]; // the most clusters of 1, 2, 4 and 8 blocks that are active at once
	} rows[] = {
		{32, {1056, 528, 248, 124}}, {128, {1056, 528, 248, 124}}, {256, {1056, 528, 248, 124}},
		{512, {528, 264, 124, 62}},  {1024, {264, 132, 62, 30}},
	};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}};
	CUlaunchConfig config = {.gridDimX = 16,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = 1};
	int major = 0, minor = 0, sms = 0, active;
	CUfunction free;

	need_clusters();
	NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	NEED(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
	NEED(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	if (major != 9 || minor != 0 || sms != 132)
		SKIP("no device of compute capability 9.0 with 132 multiprocessors");
	free = need_function(module, "free");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		config.blockDimX = rows[i].threads;
		for (unsigned k = 0; k < 4; k++) {
			attribute.value.clusterDim.x = 1U << k;
			active = -1;
			WORKS(cuOccupancyMaxActiveClusters(&active, free, &config));
			EQUALS(active, rows[i].active[k]);
		}
	}
}

CONFORM(nodes_of_graphs)
{
	CUDA_KERNEL_NODE_PARAMS params = {
		.gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
	CUkernelNodeAttrValue wanted = {.clusterDim = {4, 1, 1}}, found;
	CUdeviceptr to = 0;
	unsigned seen[8][4];
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	need_clusters();
	NEED(cuMemAlloc(&to, sizeof seen));
	void *arguments[] = {&to};
	params.func = need_function(module, "where");
	params.kernelParams = arguments;
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	NEED(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &wanted));
	WORKS(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &found));
	EQUALS(found.clusterDim.x, 4);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	NEED(cuGraphLaunch(exec, NULL));
	WORKS(cuMemcpyDtoH(seen, to, sizeof seen));
	EQUALS(seen[6][0], 1);
	EQUALS(seen[6][2], 2);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuMemFree(to));
}

CONFORM(blocks_meet)
{
	need_clusters();
	WORKS(launch("meeting", 8, 1, NULL));
	WORKS(cuCtxSynchronize());
	WORKS(launch("meeting", 8, 2, NULL));
	WORKS(launch("meeting", 128, 8, NULL));
	WORKS(cuCtxSynchronize());
}

CONFORM(blocks_share_memory)
{
	static uint32_t seen[32 * 32][4];
	CUdeviceptr to = 0;

	need_clusters();
	NEED(cuMemAlloc(&to, sizeof seen));
	void *arguments[] = {&to};
	for (unsigned cluster = 1; cluster <= 8; cluster *= 2) {
		NEED(cuMemsetD8(to, 0xff, sizeof seen));
		NEED(launch("give", 32, cluster, arguments));
		WORKS(cuMemcpyDtoH(seen, to, sizeof seen));
		unsigned wrong = 0;
		for (unsigned i = 0; i < 32 * 32; i++) {
			unsigned block = i / 32, rank = block % cluster, before = (rank + cluster - 1) % cluster;
			wrong += seen[i][0] != (block - rank + before) * 32 + i % 32;
			wrong += seen[i][1] != cluster * 32;
			wrong += seen[i][2] != (rank == 0 ? 3 : 2); // shared::cluster, shared::cta
		}
		EQUALS(wrong, 0);
	}
	WORKS(cuMemFree(to));
}

CONFORM(blocks_send_to_each_other)
{
	static uint32_t seen[16 * 32][4];
	CUdeviceptr to = 0;

	need_clusters();
	NEED(cuMemAlloc(&to, sizeof seen));
	void *arguments[] = {&to};
	NEED(launch("send", 16, 4, arguments));
	WORKS(cuMemcpyDtoH(seen, to, sizeof seen));
	unsigned wrong = 0;
	for (unsigned i = 0; i < 16 * 32; i++) {
		unsigned block = i / 32, sender = block / 4 * 4 + (block + 3) % 4;
		wrong += seen[i][0] != sender || seen[i][1] != sender % 4 || seen[i][2] != 1000 + sender ||
			 seen[i][3] != block % 4;
	}
	EQUALS(wrong, 0);
	WORKS(cuMemFree(to));
}

// Launches clusters larger than the portable size, if the kernel allows them and the device has room.
CONFORM(sixteen_blocks)
{
	CUfunction meeting;

	need_clusters();
	meeting = need_function(module, "meeting");
	GIVES(launch("meeting", 32, 16, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	NEED(cuFuncSetAttribute(meeting, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
	WORKS(launch("meeting", 32, 16, NULL));
	WORKS(cuCtxSynchronize());
	NEED(cuFuncSetAttribute(meeting, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
}
