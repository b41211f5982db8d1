// Tests kernels that copy by tensor maps and in bulk: boxes of one to five dimensions, at the edges of a tensor, with
// strides, in both directions, and to several blocks of a cluster.
#include "conformance.h"

#define RANK_MOST 5

struct tensor {
	CUtensorMapDataType type;
	unsigned rank, bytes; // `bytes` is the size of an element
	cuuint64_t dim[RANK_MOST];
	cuuint32_t box[RANK_MOST], step[RANK_MOST];
	CUtensorMapFloatOOBfill fill;
};

enum { BOX_MOST = 16 << 10, TENSOR_MOST = 64 << 10, THREADS = 64 };

static CUdeviceptr tensor, box;
static uint8_t tensor_bytes[TENSOR_MOST], box_bytes[BOX_MOST], wanted[TENSOR_MOST];

static void need_copies(void)
{
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device));
	if (!supported)
		SKIP("no tensor maps on this device");
	if (tensor)
		return;
	NEED(cuMemAlloc(&tensor, TENSOR_MOST));
	NEED(cuMemAlloc(&box, BOX_MOST));
}

#define KERNEL_HEAD                                                                            \
	".version 8.3\n.target sm_90\n.address_size 64\n"                                      \
	".visible .entry k(.param .align 64 .b8 map[128], .param .u64 p, .param .u32 bytes,\n" \
	"	.param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4) {\n" \
	"	.reg .b64 %m, %p, %q, %o;\n	.reg .b32 %n, %t, %s, %b, %c<5>, %v, %r, %i;\n"          \
	"	.reg .b16 %k;\n	.reg .pred %first, %done;\n"                                         \
	"	.shared .align 128 .b8 s[16384];\n	.shared .align 8 .b64 bar;\n"                     \
	"	mov.b64 %m, map;\n	cvta.param.u64 %m, %m;\n	ld.param.u64 %p, [p];\n"                 \
	"	ld.param.u32 %n, [bytes];\n	ld.param.u32 %c0, [c0];\n	ld.param.u32 %c1, [c1];\n"     \
	"	ld.param.u32 %c2, [c2];\n	ld.param.u32 %c3, [c3];\n	ld.param.u32 %c4, [c4];\n"       \
	"	mov.u32 %t, %tid.x;\n	setp.eq.u32 %first, %t, 0;\n	mov.u32 %s, s;\n	mov.u32 %b, bar;\n"
// PTX that runs `body` for each word of the box. %r is the address of the word in shared memory. %q is its address in
// global memory, in the array at the kernel's parameter p.
#define EACH_WORD(body)                                                                     \
	"	mul.lo.u32 %i, %t, 4;\neach:\n	setp.ge.u32 %done, %i, %n;\n	@%done bra end;\n"    \
	"	cvt.u64.u32 %o, %i;\n	add.u64 %q, %p, %o;\n	add.u32 %r, %s, %i;\n" body \
	"	mov.u32 %r, %ntid.x;\n	mad.lo.u32 %i, %r, 4, %i;\n	bra each;\nend:\n"
#define TO_GLOBAL EACH_WORD("	ld.shared.b32 %v, [%r];\n	st.global.b32 [%q], %v;\n")
#define TO_SHARED EACH_WORD("	ld.global.b32 %v, [%q];\n	st.shared.b32 [%r], %v;\n")
#define EXPECT                                              \
	"	@%first mbarrier.init.shared::cta.b64 [%b], 1;\n" \
	"	fence.mbarrier_init.release.cluster;\n"           \
	"	@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %n;\n"
#define WAIT "wait:\n	mbarrier.try_wait.parity.shared::cta.b64 %done, [%b], 0;\n	@!%done bra wait;\n"

static const char *const coordinates[] = {"%c0", "%c0, %c1", "%c0, %c1, %c2", "%c0, %c1, %c2, %c3",
					  "%c0, %c1, %c2, %c3, %c4"};

static const char *load_text(unsigned rank)
{
	static char text[8192];

	snprintf(text, sizeof text,
		 "%s%s	bar.sync 0;\n"
		 "	@%%first cp.async.bulk.tensor.%ud.shared::cluster.global.mbarrier::complete_tx::bytes [%%s], "
		 "[%%m, {%s}], [%%b];\n%s%s	ret;\n}\n",
		 KERNEL_HEAD, EXPECT, rank, coordinates[rank - 1], WAIT, TO_GLOBAL);
	return text;
}

static const char *store_text(unsigned rank)
{
	static char text[8192];

	snprintf(text, sizeof text,
		 "%s%s	fence.proxy.async.shared::cta;\n	bar.sync 0;\n"
		 "	@%%first cp.async.bulk.tensor.%ud.global.shared::cta.bulk_group [%%m, {%s}], [%%s];\n"
		 "	cp.async.bulk.commit_group;\n	cp.async.bulk.wait_group 0;\n	ret;\n}\n",
		 KERNEL_HEAD, TO_SHARED, rank, coordinates[rank - 1]);
	return text;
}

// Returns the stride of a dimension; rows follow each other without a gap.
static cuuint64_t stride_of(const struct tensor *t, unsigned dimension)
{
	cuuint64_t stride = t->bytes;

	for (unsigned i = 0; i < dimension; i++)
		stride *= t->dim[i];
	return stride;
}

static void need_map(const struct tensor *t, CUtensorMap *ret_map)
{
	cuuint64_t strides[RANK_MOST];

	for (unsigned i = 1; i < t->rank; i++)
		strides[i - 1] = stride_of(t, i);
	NEED(cuTensorMapEncodeTiled(ret_map, t->type, t->rank, (void *)tensor, t->dim, strides, t->box, t->step,
				    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
				    CU_TENSOR_MAP_L2_PROMOTION_NONE, t->fill));
}

// Returns the number of elements of the box along dimension `i`. The element stride `step` does not apply to the
// innermost dimension.
static unsigned extent(const struct tensor *t, unsigned i)
{
	return i ? (t->box[i] + t->step[i] - 1) / t->step[i] : t->box[0];
}

static unsigned elements_of(const struct tensor *t)
{
	unsigned count = 1;

	for (unsigned i = 0; i < t->rank; i++)
		count *= extent(t, i);
	return count;
}

// Returns the offset in bytes, within the tensor, of element `number` of the box. Returns -1 if that element is outside
// the tensor.
static int64_t place(const struct tensor *t, const int *start, unsigned number)
{
	int64_t at = 0;

	for (unsigned i = 0; i < t->rank; i++) {
		int64_t coordinate = start[i] + (int64_t)(number % extent(t, i)) * (i ? t->step[i] : 1);
		if (coordinate < 0 || coordinate >= (int64_t)t->dim[i])
			return -1;
		at += coordinate * (int64_t)stride_of(t, i);
		number /= extent(t, i);
	}
	return at;
}

static void launch(const struct tensor *t, const char *text, const int *start)
{
	static CUtensorMap map;
	unsigned bytes = elements_of(t) * t->bytes;
	int c[RANK_MOST] = {0};
	CUmodule module = need_module(text);
	void *arguments[] = {&map, &box, &bytes, &c[0], &c[1], &c[2], &c[3], &c[4]};

	need_map(t, &map);
	memcpy(c, start, t->rank * sizeof *c);
	NEED(cuMemcpyHtoD(tensor, tensor_bytes, TENSOR_MOST));
	NEED(cuMemcpyHtoD(box, box_bytes, BOX_MOST));
	NEED(cuLaunchKernel(need_function(module, "k"), 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
	NEED(cuCtxSynchronize());
	NEED(cuModuleUnload(module));
}

static void fill(uint8_t *bytes, size_t count, unsigned seed)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

static void check_load(const struct tensor *t, const int *start)
{
	unsigned wrong = 0;

	fill(tensor_bytes, sizeof tensor_bytes, 1);
	memset(box_bytes, 0xee, sizeof box_bytes);
	launch(t, load_text(t->rank), start);
	NEED(cuMemcpyDtoH(box_bytes, box, BOX_MOST));
	for (unsigned i = 0; i < elements_of(t); i++) {
		const uint8_t zeros[8] = {0}, *got = box_bytes + i * t->bytes;
		int64_t at = place(t, start, i);
		float value;
		memcpy(&value, got, sizeof value);
		wrong += at < 0 && t->fill ? value == value
					   : memcmp(got, at < 0 ? zeros : tensor_bytes + at, t->bytes) != 0;
	}
	EQUALS(wrong, 0);
	EQUALS(box_bytes[elements_of(t) * t->bytes], 0xee);
}

static void check_store(const struct tensor *t, const int *start)
{
	fill(tensor_bytes, sizeof tensor_bytes, 2);
	fill(box_bytes, sizeof box_bytes, 3);
	memcpy(wanted, tensor_bytes, sizeof wanted);
	for (unsigned i = 0; i < elements_of(t); i++) {
		int64_t at = place(t, start, i);
		if (at >= 0)
			memcpy(wanted + at, box_bytes + i * t->bytes, t->bytes);
	}
	launch(t, store_text(t->rank), start);
	NEED(cuMemcpyDtoH(tensor_bytes, tensor, TENSOR_MOST));
	HOLDS(memcmp(tensor_bytes, wanted, sizeof wanted) == 0);
}

static const struct tensor tensors[] = {
	{CU_TENSOR_MAP_DATA_TYPE_INT32, 1, 4, {100}, {32}, {1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, 4, {36, 20}, {8, 6}, {1, 1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, 1, {64, 64}, {32, 16}, {1, 1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, 2, {40, 7, 9}, {16, 4, 3}, {1, 1, 1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 4, 8, {6, 5, 4, 3}, {2, 3, 2, 2}, {1, 1, 1, 1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_UINT16, 5, 2, {16, 4, 3, 5, 2}, {8, 2, 3, 2, 2}, {1, 1, 1, 1, 1}, 0},
	{CU_TENSOR_MAP_DATA_TYPE_INT32, 3, 4, {12, 20, 15}, {4, 9, 8}, {1, 2, 3}, 0},
};
// Start coordinates of boxes. The first coordinate of each is in units of 16 bytes.
static const int starts[][RANK_MOST] = {
	{0, 0, 0, 0, 0}, {1, 2, 1, 1, 0}, {-1, -1, 1, 0, 0}, {1, -2, -1, 1, -1}, {6, 4, 6, 2, 1}, {900, 0, 0, 0, 0},
};

// Converts the first start coordinate from units of 16 bytes to elements. It has this unit because the address of a box
// must be a multiple of 16 bytes.
static const int *start_of(const struct tensor *t, const int *units)
{
	static int start[RANK_MOST];

	memcpy(start, units, sizeof start);
	start[0] *= 16 / (int)t->bytes;
	return start;
}

static bool is_before(const int *start)
{
	for (unsigned i = 0; i < RANK_MOST; i++)
		if (start[i] < 0)
			return true;
	return false;
}

CONFORM(boxes_are_loaded)
{
	need_copies();
	for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
		for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
			check_load(&tensors[i], start_of(&tensors[i], starts[k]));
}

CONFORM(boxes_are_stored)
{
	need_copies();
	for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
		for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
			if (!is_before(starts[k])) // see below
				check_store(&tensors[i], start_of(&tensors[i], starts[k]));
}

CONFORM(outside_may_be_no_number)
{
	struct tensor t = tensors[1];

	need_copies();
	t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
	check_load(&t, start_of(&t, starts[2]));
	check_load(&t, start_of(&t, starts[5]));
}

static void fails_to_copy(const char *text, int x, int y)
{
	const struct tensor *t = &tensors[1];
	int bytes = (int)(elements_of(t) * t->bytes), none = 0;
	static CUtensorMap map;
	void *arguments[] = {&map, &box, &bytes, &x, &y, &none, &none, &none};

	need_copies();
	need_map(t, &map);
	CUmodule module = need_module(text);
	NEED(cuLaunchKernel(need_function(module, "k"), 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

CHILD(misaligned)
{
	fails_to_copy(strcmp(argument, "load") == 0 ? load_text(2) : store_text(2), 2, 0);
}

CHILD(stored_before)
{
	fails_to_copy(store_text(2), 4, -1);
}

CONFORM(where_boxes_may_start)
{
	need_copies();
	run_child("misaligned", "load");
	run_child("misaligned", "store");
	run_child("stored_before", NULL);
}

// The block with rank 1 copies to the blocks in the mask; each of them waits for its own bytes.
CONFORM(to_several_blocks)
{
	static const char *const copies[] = {
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], "
		"[%m, {%c0, %c1}], [%b], %k;",
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], [%q], %n, "
		"[%b], %k;"};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {4, 1, 1}};
	CUlaunchConfig config = {.gridDimX = 4,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = THREADS,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = 1};
	static CUtensorMap map;
	const struct tensor t = {CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, 1, {64, 64}, {64, 16}, {1, 1}, 0};
	unsigned bytes = elements_of(&t);
	int none = 0;
	void *arguments[] = {&map, &box, &bytes, &none, &none, &none, &none, &none};
	char text[8192];

	need_copies();
	need_map(&t, &map);
	fill(tensor_bytes, sizeof tensor_bytes, 4);
	for (unsigned i = 0; i < 2; i++) {
		// The second kernel copies from `box_bytes` instead of the tensor, so both must begin with the same
		// bytes.
		memset(box_bytes, 0xee, sizeof box_bytes);
		memcpy(box_bytes, tensor_bytes, bytes);
		snprintf(text, sizeof text,
			 "%s%s	mov.b16 %%k, 13;\n	mov.u64 %%q, %%p;\n	mov.u32 %%r, %%cluster_ctarank;\n"
			 "	setp.eq.u32 %%done, %%r, 1;\n	and.pred %%first, %%first, %%done;\n"
			 "	mad.wide.u32 %%p, %%r, 1024, %%p;\n	add.u64 %%p, %%p, 1024;\n"
			 "	barrier.cluster.arrive;\n	barrier.cluster.wait;\n	@%%first %s\n"
			 "	@%%done bra end;\n%s%s"
			 "	barrier.cluster.arrive;\n	barrier.cluster.wait;\n	ret;\n}\n",
			 KERNEL_HEAD, EXPECT, copies[i], WAIT, TO_GLOBAL);
		CUmodule module = need_module(text);
		NEED(cuMemcpyHtoD(tensor, tensor_bytes, TENSOR_MOST));
		NEED(cuMemcpyHtoD(box, box_bytes, BOX_MOST));
		NEED(cuLaunchKernelEx(&config, need_function(module, "k"), arguments, NULL));
		NEED(cuMemcpyDtoH(box_bytes, box, BOX_MOST));
		for (unsigned rank = 0; rank < 4; rank++) {
			HOLDS(rank == 1 || memcmp(box_bytes + 1024 * (rank + 1), tensor_bytes, 1024) == 0);
			HOLDS(rank != 1 || box_bytes[1024 * 2] == 0xee);
		}
		NEED(cuModuleUnload(module));
	}
}

// Applies each operation to elements with the value `old` in global memory and elements with the value `by` in shared
// memory.
CONFORM(reductions)
{
	static const struct {
		const char *operation;
		unsigned bytes;
		uint64_t old, by, want;
	} rows[] = {
		{"add.u32", 4, 0xffffffff, 3, 2},
		{"add.u64", 8, 0xffffffff, 3, 0x100000002},
		{"min.s32", 4, 5, 0xfffffffe, 0xfffffffe},
		{"max.u32", 4, 5, 0xfffffffe, 0xfffffffe},
		{"max.s64", 8, 5, UINT64_MAX, 5},
		{"inc.u32", 4, 7, 7, 0},
		{"dec.u32", 4, 0, 9, 9},
		{"and.b32", 4, 0xff00ff00, 0xffff0000, 0xff000000},
		{"or.b64", 8, 1, (uint64_t)1 << 63, (uint64_t)1 << 63 | 1},
		{"xor.b32", 4, 0xff, 0xf0f, 0xff0},
		{"add.f32", 4, 0x3f800000, 0x40000000, 0x40400000},
		{"add.f64", 8, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000},
		{"add.noftz.f16", 2, 0x3c00, 0x4000, 0x4200},
		{"add.noftz.bf16", 2, 0x3f80, 0x4000, 0x4040},
		{"min.f16", 2, 0x3c00, 0xc000, 0xc000},
	};
	const struct tensor any = tensors[0];
	CUtensorMap map;
	unsigned bytes = 128;
	int none = 0;
	void *arguments[] = {&map, &box, &bytes, &none, &none, &none, &none, &none};
	char text[8192];

	need_copies();
	need_map(&any, &map);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		// The kernel copies from the second half of the box, which gets `by` here, to the first half, which
		// gets `old`.
		for (unsigned at = 0; at < bytes; at += rows[i].bytes) {
			memcpy(box_bytes + at, &rows[i].old, rows[i].bytes);
			memcpy(box_bytes + bytes + at, &rows[i].by, rows[i].bytes);
		}
		snprintf(text, sizeof text,
			 "%s	add.u64 %%p, %%p, 128;\n%s	fence.proxy.async.shared::cta;\n	bar.sync 0;\n"
			 "	sub.u64 %%p, %%p, 128;\n"
			 "	@%%first cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%p], [%%s], %%n;\n"
			 "	cp.async.bulk.commit_group;\n	cp.async.bulk.wait_group 0;\n	ret;\n}\n",
			 KERNEL_HEAD, TO_SHARED, rows[i].operation);
		CUmodule module = need_module(text);
		NEED(cuMemcpyHtoD(box, box_bytes, BOX_MOST));
		NEED(cuLaunchKernel(need_function(module, "k"), 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
		NEED(cuMemcpyDtoH(box_bytes, box, BOX_MOST));
		for (unsigned at = 0; at < bytes; at += rows[i].bytes)
			HOLDS(memcmp(box_bytes + at, &rows[i].want, rows[i].bytes) == 0);
		NEED(cuModuleUnload(module));
	}
}

// Launches a kernel that adds the box to an array in the block's own shared memory, 1 KiB behind the box. Before that,
// each thread stores its number (%tid.x) as its word of the array.
static void launch_reduction(unsigned cluster)
{
	static CUtensorMap map;
	static unsigned bytes = 64;
	static int none = 0;
	void *arguments[] = {&map, &box, &bytes, &none, &none, &none, &none, &none};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				       .value.clusterDim = {cluster, cluster, cluster}};
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = THREADS,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = cluster ? 1 : 0};
	char text[8192];

	need_copies();
	need_map(&tensors[0], &map);
	snprintf(text, sizeof text,
		 "%s%s%s	mad.lo.u32 %%r, %%t, 4, %%s;\n	st.shared.b32 [%%r+1024], %%t;\n"
		 "	fence.proxy.async.shared::cta;\n	bar.sync 0;\n	add.u32 %%r, %%s, 1024;\n"
		 "	@%%first cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
		 "[%%r], [%%s], %%n, [%%b];\n%s	mul.lo.u32 %%i, %%t, 4;\n	setp.ge.u32 %%done, %%i, %%n;\n"
		 "	@%%done ret;\n	cvt.u64.u32 %%o, %%i;\n	add.u64 %%q, %%p, %%o;\n"
		 "	add.u32 %%r, %%s, %%i;\n"
		 "	ld.shared.b32 %%v, [%%r+1024];\n	st.global.b32 [%%q], %%v;\n	ret;\n}\n",
		 KERNEL_HEAD, EXPECT, TO_SHARED, WAIT);
	CUmodule module = need_module(text);
	fill(box_bytes, sizeof box_bytes, 5);
	NEED(cuMemcpyHtoD(box, box_bytes, BOX_MOST));
	NEED(cuLaunchKernelEx(&config, need_function(module, "k"), arguments, NULL));
}

CONFORM(reductions_in_shared_memory)
{
	uint32_t before[16], after[16];

	launch_reduction(1);
	memcpy(before, box_bytes, sizeof before);
	NEED(cuMemcpyDtoH(after, box, sizeof after));
	for (unsigned i = 0; i < 16; i++)
		EQUALS(after[i], before[i] + i);
}

CHILD(reduction_without_a_cluster)
{
	launch_reduction(0);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

CONFORM(copies_between_blocks_need_a_cluster)
{
	need_copies();
	run_child("reduction_without_a_cluster", NULL);
}

// Tests instructions used with tensor copies: the election of a thread, fences between proxies, and cache hints.
CONFORM(elections_and_hints)
{
	static const char text[] = KERNEL_HEAD
		"	griddepcontrol.wait;\n	fence.proxy.async;\n	fence.proxy.alias;\n"
		"	fence.proxy.tensormap::generic.release.gpu;\n	prefetch.tensormap [%m];\n"
		"	cp.async.bulk.prefetch.tensor.1d.L2.global [%m, {%c0}];\n"
		"	cp.async.bulk.prefetch.L2.global [%p], 64;\n"
		"	elect.sync %v|%done, 0xffffffff;\n	selp.u32 %i, 256, 0, %done;\n	or.b32 %v, %v, %i;\n"
		"	setp.ge.u32 %done, %t, 8;\n	setp.lt.u32 %first, %t, 4;\n	or.pred %done, %done, %first;\n"
		"	@%done bra store;\n"
		"	elect.sync %v|%done, 0xf0;\n	selp.u32 %i, 512, 0, %done;\n	or.b32 %v, %v, %i;\n"
		"store:\n	mul.wide.u32 %o, %t, 4;\n	add.u64 %p, %p, %o;\n	st.global.b32 [%p], %v;\n"
		"	griddepcontrol.launch_dependents;\n	ret;\n}\n";
	const struct tensor any = tensors[0];
	const int start[] = {0};
	uint32_t seen[THREADS];

	need_copies();
	launch(&any, text, start);
	NEED(cuMemcpyDtoH(seen, box, sizeof seen));
	for (unsigned i = 0; i < THREADS; i++)
		EQUALS(seen[i], i == 4 ? 512 + 4 : i > 4 && i < 8 ? 4 : i % 32 ? 0 : 256);
}
