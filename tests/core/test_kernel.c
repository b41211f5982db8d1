#include "code_test.h"

#include <limits.h>

static struct vg_context *context;
static struct vg_object_code *code;

static struct vg_kernel *kernel_of(const char *name)
{
	struct vg_kernel *kernel;

	if (!context) {
		context = first_context();
		code = built_code(VG_CODE_PTX, "kernels.ptx");
	}
	OK(vg_object_code_kernel(code, name, &kernel));
	return kernel;
}

TEST(parameters)
{
	static const size_t sizes[] = {8, 1, 2, 4, 8, 1}, offsets[] = {0, 8, 10, 12, 16, 24};
	struct vg_kernel *kernel = kernel_of("store"), *empty = kernel_of("empty");
	size_t offset = 77, size = 77;

	CHECK_INT(vg_kernel_parameter_count(kernel), 6);
	for (size_t i = 0; i < 6; i++) {
		OK(vg_kernel_parameter(kernel, i, &offset, &size));
		CHECK_INT(offset, offsets[i]);
		CHECK_INT(size, sizes[i]);
	}
	REFUSED(vg_kernel_parameter(kernel, 6, &offset, &size), VG_INVALID, "parameter 6: kernel \"store\" has 6");
	CHECK_INT(vg_kernel_parameter_count(empty), 0);
	CHECK_INT(vg_kernel_parameter_count(NULL), 0);
	vg_kernel_destroy(kernel);
	vg_kernel_destroy(empty);
}

TEST(attributes)
{
	struct vg_kernel *kernel = kernel_of("dynamic"), *bound = kernel_of("meet");
	struct vg_device *device = vg_context_device(context);
	int value = -7;

	for (int i = VG_KERNEL_MAX_THREADS_PER_BLOCK; i <= VG_KERNEL_CLUSTER_SCHEDULING_POLICY_PREFERENCE; i++)
		OK(vg_kernel_get_attribute(kernel, device, (enum vg_kernel_attribute)i, &value));
	OK(vg_kernel_get_attribute(bound, device, VG_KERNEL_MAX_THREADS_PER_BLOCK, &value));
	CHECK_INT(value, 64);
	OK(vg_kernel_get_attribute(kernel, device, VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES, &value));
	CHECK_INT(value, 48 * 1024);
	OK(vg_kernel_set_attribute(kernel, device, VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50 * 1024));
	OK(vg_kernel_get_attribute(kernel, device, VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES, &value));
	CHECK_INT(value, 50 * 1024);
	OK(vg_kernel_set_attribute(kernel, device, VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
	OK(vg_kernel_get_attribute(kernel, device, VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT, &value));
	CHECK_INT(value, 50);
	REFUSED(vg_kernel_set_attribute(kernel, device, VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES, INT_MAX), VG_INVALID,
		"device 0 refuses 2147483647 for attribute 8 of kernel \"dynamic\"");
	REFUSED(vg_kernel_set_attribute(kernel, device, VG_KERNEL_NUM_REGS, 1), VG_INVALID,
		"attribute 4 cannot be set");
	REFUSED(vg_kernel_get_attribute(kernel, device, (enum vg_kernel_attribute)16, &value), VG_INVALID,
		"there are 0 to 15");
	REFUSED(vg_kernel_get_attribute(kernel, device, (enum vg_kernel_attribute) - 1, &value), VG_INVALID,
		"there are 0 to 15");
	REFUSED(vg_kernel_get_attribute(kernel, NULL, VG_KERNEL_NUM_REGS, &value), VG_INVALID, "device is NULL");
	vg_kernel_destroy(kernel);
	vg_kernel_destroy(bound);
}

static size_t four_bytes_per_thread(int threads, void *user)
{
	++*(int *)user;
	return (size_t)threads * 4;
}

TEST(occupancy)
{
	struct vg_kernel *kernel = kernel_of("dynamic"), *bound = kernel_of("meet");
	unsigned blocks, grid, block;
	int calls = 0;
	size_t bytes;

	OK(vg_kernel_max_active_blocks(kernel, context, 256, 0, &blocks));
	CHECK(blocks >= 1 && blocks <= 32);
	unsigned most = blocks;
	OK(vg_kernel_max_active_blocks(kernel, context, 256, 48 * 1024, &blocks));
	CHECK(blocks < most);
	OK(vg_kernel_max_potential_block_size(bound, context, NULL, &grid, &block));
	CHECK(block == 64 && grid >= 1);
	struct vg_block_size_options options = {sizeof options, .shared_memory_of = four_bytes_per_thread,
						.user = &calls, .block_limit = 128};
	OK(vg_kernel_max_potential_block_size(kernel, context, &options, &grid, &block));
	CHECK(block >= 1 && block <= 128 && calls > 0);
	options.shared_memory = 4;
	REFUSED(vg_kernel_max_potential_block_size(kernel, context, &options, &grid, &block), VG_INVALID, "both given");
	OK(vg_kernel_available_shared_memory(kernel, context, 2, 128, &bytes));
	CHECK(bytes >= 16 * 1024);
	OK(vg_kernel_max_active_blocks(kernel, context, 128, bytes, &blocks));
	REFUSED(vg_kernel_available_shared_memory(kernel, context, 1000, 128, &bytes), VG_INVALID,
		"1000 blocks of 128 threads");
	REFUSED(vg_kernel_available_shared_memory(kernel, context, 0, 128, &bytes), VG_INVALID, "0 blocks");
	REFUSED(vg_kernel_max_active_blocks(kernel, context, 0, 0, &blocks), VG_INVALID, "a block of 0 threads");
	REFUSED(vg_kernel_max_active_blocks(kernel, NULL, 1, 0, &blocks), VG_INVALID, "context is NULL");
	vg_kernel_destroy(kernel);
	vg_kernel_destroy(bound);
}

TEST(occupancy_of_clusters)
{
	struct vg_kernel *kernel = kernel_of("empty");
	struct vg_stream *stream;
	unsigned count;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_kernel_max_potential_cluster_size(kernel, stream, CONFIG(8, 64), &count));
	CHECK(count >= 1 && count <= 16);
	OK(vg_kernel_max_active_clusters(kernel, stream, CONFIG(8, 64, .cluster = {1}), &count));
	CHECK(count >= 1);
	REFUSED(vg_kernel_max_active_clusters(kernel, stream, CONFIG(8, 64), &count), VG_INVALID, "names no cluster");
	REFUSED(vg_kernel_max_active_clusters(kernel, stream, NULL, &count), VG_INVALID, "config is NULL");
	vg_stream_destroy(stream);
	vg_kernel_destroy(kernel);
}

// Mangled names, and for each the demangled name as c++filt prints it, without the result type and the parameters.
static const struct {
	const char *symbol, *title;
} titles[] = {
	{"add", "add"},
	{"_Z3addPfS_", "add"},
	{"_Z5scaleIfEvPT_", "scale<float>"},
	{"_ZN4math3addEPf", "math::add"},
	{"_ZN20_GLOBAL__N__6cdd12343addEPf", "(anonymous namespace)::add"},
	{"_Z4fillIPKfLi128ELb1EEvT_", "fill<float const*, 128, true>"},
	{"_ZN4math6vectorIdE3addEv", "math::vector<double>::add"},
	{"_Z3addIN4math6vectorIdEERjEvv", "add<math::vector<double>, unsigned int&>"},
	{"_Z3subILin5EEvv", "sub<-5>"},
	{"_ZL5localv", "local"},
	// Mangled names that the library returns unchanged: an expression, a back reference, an empty name, and
	// truncated ones.
	{"_Z3addIXadL_Z1fvEEEvv", "_Z3addIXadL_Z1fvEEEvv"},
	{"_Z3addIS_Evv", "_Z3addIS_Evv"},
	{"_Z", "_Z"},
	{"_Z30addv", "_Z30addv"},
};
enum { TITLES = sizeof titles / sizeof *titles };

TEST(messages_have_the_source_names_of_kernels)
{
	const struct vg_symbol symbols[] = {{"scale<float>", "_Z5scaleIfEvPT_"}, {"the::own", "_Z3addIS_Evv"}};
	struct vg_object_code_options named = {sizeof named, .symbols = symbols, .symbol_count = 2};
	char ptx[4096], wanted[128];
	struct vg_object_code *own;
	struct vg_stream *stream;
	struct vg_kernel *kernel, *borrowed;

	vg_kernel_destroy(kernel_of("empty"));
	OK(vg_stream_create(context, NULL, &stream));
	int used = sprintf(ptx, ".version 7.0\n.target sm_75\n.address_size 64\n");
	for (int i = 0; i < TITLES; i++)
		used += sprintf(ptx + used, ".visible .entry %s(.param .u64 a) { ret; }\n", titles[i].symbol);
	OK(vg_object_code_create(VG_CODE_PTX, ptx, (size_t)used, NULL, &own));
	for (int i = 0; i < TITLES; i++) {
		OK(vg_object_code_kernel(own, titles[i].symbol, &kernel));
		CHECK_STR(vg_kernel_name(kernel), titles[i].symbol);
		OK(vg_kernel_borrow(vg_kernel_handle(kernel), NULL, NULL, NULL, &borrowed));
		snprintf(wanted, sizeof wanted, "0 arguments for kernel \"%s\", which takes 1", titles[i].title);
		REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 0), VG_INVALID, wanted);
		REFUSED(vg_launch(stream, CONFIG(1, 1), borrowed, NULL, 0), VG_INVALID, wanted);
		vg_kernel_destroy(borrowed);
		vg_kernel_destroy(kernel);
	}
	REFUSED(vg_object_code_kernel(own, "scale", &kernel), VG_NOT_FOUND, "_Z5scaleIfEvPT_ (scale<float>)");
	vg_object_code_destroy(own);
	// If a kernel was compiled with a name expression, messages use the expression instead of the demangled name.
	OK(vg_object_code_create(VG_CODE_PTX, ptx, (size_t)used, &named, &own));
	REFUSED(vg_object_code_kernel(own, "own", &kernel), VG_NOT_FOUND, "the::own");
	OK(vg_object_code_kernel(own, "the::own", &kernel));
	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, VG_ARGUMENTS((char)1)), VG_INVALID,
		"argument 0 of kernel \"the::own\" (counted from 0) has 1 byte: the kernel takes 8");
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(own);
	vg_stream_destroy(stream);
}

static void count_release(void *owner)
{
	++*(int *)owner;
}

TEST(borrowed_kernels)
{
	struct vg_kernel *kernel = kernel_of("empty"), *borrowed = NULL;
	struct vg_object_code *other = built_code(VG_CODE_PTX, "kernels.ptx");
	int released = 0;

	REFUSED(vg_kernel_borrow(vg_kernel_handle(kernel), other, &released, count_release, &borrowed), VG_INVALID,
		"belongs to another library");
	REFUSED(vg_kernel_borrow(NULL, NULL, NULL, NULL, &borrowed), VG_INVALID, "handle is NULL");
	CHECK(!borrowed && !released);
	OK(vg_kernel_borrow(vg_kernel_handle(kernel), NULL, &released, count_release, &borrowed));
	CHECK(vg_kernel_handle(borrowed) == vg_kernel_handle(kernel));
	CHECK(vg_kernel_code(borrowed) == NULL && vg_kernel_code(kernel) == code);
	CHECK_INT(vg_kernel_parameter_count(borrowed), 0);
	OK(vg_kernel_close(borrowed));
	OK(vg_kernel_close(borrowed));
	CHECK(vg_kernel_handle(borrowed) == NULL);
	CHECK_STR(vg_kernel_name(borrowed), "");
	CHECK_INT(released, 0);
	vg_kernel_destroy(borrowed);
	CHECK_INT(released, 1);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(other);
}

TEST(nothing_leaks)
{
	// The address sanitizer reports what the tests above leaked.
	vg_object_code_destroy(code);
	vg_context_destroy(context);
	context = NULL;
}
