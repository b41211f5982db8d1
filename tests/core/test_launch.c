#include "code_test.h"

#include <cuda.h>
#include <limits.h>

static struct vg_context *context;
static struct vg_object_code *code;
static struct vg_stream *stream;

static struct vg_kernel *kernel_of(const char *name)
{
	struct vg_kernel *kernel;

	if (!context) {
		context = first_context();
		code = built_code(VG_CODE_PTX, "kernels.ptx");
		OK(vg_stream_create(context, NULL, &stream));
	}
	OK(vg_object_code_kernel(code, name, &kernel));
	return kernel;
}

TEST(arguments_of_every_size_arrive)
{
	struct vg_kernel *kernel = kernel_of("store");
	vg_address where = words(context, 5 * sizeof(long long));
	long long got[5];

	OK(vg_launch(stream, CONFIG(1, 1), kernel,
		     VG_ARGUMENTS(where, (char)-3, (short)-300, 70000, (double)2.5e10, (char)9)));
	OK(vg_stream_sync(stream));
	read_words(context, got, where, sizeof got);
	CHECK_INT(got[0], -3);
	CHECK_INT(got[1], -300);
	CHECK_INT(got[2], 70000);
	CHECK_INT(got[3], 25000000000);
	CHECK_INT(got[4], 9);
	free_words(context, where);
	vg_kernel_destroy(kernel);
}

TEST(arguments_are_checked_in_number_and_size)
{
	struct vg_kernel *kernel = kernel_of("bump"), *empty = kernel_of("empty");

	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 0), VG_INVALID,
		"0 arguments for kernel \"bump\", which takes 1");
	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 1), VG_INVALID, "arguments is NULL");
	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, VG_ARGUMENTS((long)1)), VG_INVALID,
		"argument 0 of kernel \"bump\" (counted from 0) has 8 bytes: the kernel takes 4");
	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, &(struct vg_argument){NULL, 4}, 1), VG_INVALID,
		"argument 0 of kernel \"bump\" (counted from 0) is NULL");
	REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, &(struct vg_argument){(void *)-1ul, 4}, 1), VG_INVALID,
		"argument 0 of kernel \"bump\" (counted from 0) is at no address");
	REFUSED(vg_launch(stream, CONFIG(1, 1), empty, VG_ARGUMENTS(1)), VG_INVALID,
		"1 argument for kernel \"empty\", which takes 0");
	vg_kernel_destroy(kernel);
	vg_kernel_destroy(empty);
}

// Returns a kernel that adds its `count` parameters. They have 8 bytes each, except the last one, which has `last`
// bits.
static struct vg_kernel *get_adder(unsigned count, unsigned last, struct vg_object_code **ret_code)
{
	static char ptx[1024 + 512 * 128];
	struct vg_kernel *kernel;
	int n;

	CHECK(count <= 512);
	n = sprintf(ptx, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry add(.param .u64 where");
	for (unsigned i = 0; i < count; i++)
		n += sprintf(&ptx[n], ", .param .u%u p%u", i == count - 1 ? last : 64, i);
	n += sprintf(&ptx[n], ") {\n.reg .b64 %%sum, %%one, %%at;\nmov.u64 %%sum, 0;\n");
	for (unsigned i = 0; i < count; i++)
		n += sprintf(&ptx[n], "ld.param.u%u %%one, [p%u];\nadd.u64 %%sum, %%sum, %%one;\n",
			     i == count - 1 ? last : 64, i);
	sprintf(&ptx[n], "ld.param.u64 %%at, [where];\nst.global.u64 [%%at], %%sum;\nret;\n}\n");
	OK(vg_object_code_create(VG_CODE_PTX, ptx, strlen(ptx), NULL, ret_code));
	OK(vg_object_code_kernel(*ret_code, "add", &kernel));
	return kernel;
}

TEST(each_of_many_arguments_is_checked)
{
	enum { MOST = 40 };
	uint64_t data[MOST], got, sum;
	struct vg_argument arguments[MOST + 1];
	struct vg_object_code *own;
	vg_address where;
	char part[96];

	vg_kernel_destroy(kernel_of("empty"));
	where = words(context, 8);
	// The library checks parameters in groups, so the counts near a group's size are tested.
	for (unsigned count = 1; count <= MOST; count += count < 12 ? 1 : 7) {
		struct vg_kernel *kernel = get_adder(count, 32, &own);

		arguments[0] = (struct vg_argument){&where, sizeof where};
		sum = 0;
		for (unsigned i = 0; i < count; i++) {
			sum += data[i] = 1000 + i;
			arguments[i + 1] = (struct vg_argument){&data[i], i == count - 1 ? 4 : 8};
		}
		OK(vg_launch(stream, CONFIG(1, 1), kernel, arguments, count + 1));
		OK(vg_stream_sync(stream));
		read_words(context, &got, where, sizeof got);
		CHECK_INT(got, sum);
		for (unsigned i = 0; i <= count; i++) {
			struct vg_argument good = arguments[i];

			arguments[i].size = 16;
			snprintf(part, sizeof part, "argument %u of kernel \"add\" (counted from 0) has 16 bytes", i);
			REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, arguments, count + 1), VG_INVALID, part);
			arguments[i] = (struct vg_argument){NULL, good.size};
			snprintf(part, sizeof part, "argument %u of kernel \"add\" (counted from 0) is NULL", i);
			REFUSED(vg_launch(stream, CONFIG(1, 1), kernel, arguments, count + 1), VG_INVALID, part);
			arguments[i] = good;
		}
		vg_kernel_destroy(kernel);
		vg_object_code_destroy(own);
	}
	free_words(context, where);
}

// Tests argument lists. A program uses an argument list for many arguments, or to pass the same variables to every
// launch. For values that are known at the launch it uses vg_launch(), and for a fixed configuration a prepared launch.
TEST(argument_lists_are_checked_once_and_read_at_each_launch)
{
	enum { COUNT = 512 };
	static uint64_t data[COUNT], other = 100000;
	static struct vg_variable arguments[COUNT + 1];
	struct vg_argument_list *list = NULL;
	struct vg_object_code *own;
	uint64_t got, sum;

	vg_kernel_destroy(kernel_of("empty"));
	struct vg_kernel *kernel = get_adder(COUNT, 64, &own);
	vg_address where = words(context, 8);
	arguments[0] = VG_VARIABLE(where);
	for (unsigned i = 0; i < COUNT; i++)
		arguments[i + 1] = VG_VARIABLE(data[i]);
	arguments[COUNT].place.size = 4;
	REFUSED(vg_argument_list_create(kernel, arguments, COUNT + 1, &list), VG_INVALID,
		"argument 512 of kernel \"add\" (counted from 0) has 4 bytes: the kernel takes 8");
	REFUSED(vg_argument_list_create(kernel, arguments, COUNT, &list), VG_INVALID,
		"512 arguments for kernel \"add\", which takes 513");
	REFUSED(vg_argument_list_create(kernel, NULL, 0, &list), VG_INVALID, "0 arguments for kernel \"add\"");
	REFUSED(vg_argument_list_create(kernel, NULL, COUNT + 1, &list), VG_INVALID, "arguments is NULL");
	REFUSED(vg_argument_list_create(NULL, arguments, COUNT + 1, &list), VG_INVALID, "kernel is NULL");
	CHECK(list == NULL);
	arguments[COUNT].place.size = 8;
	OK(vg_argument_list_create(kernel, arguments, COUNT + 1, &list));
	memset(arguments, 0, sizeof arguments); // the list has copied the arguments
	vg_kernel_destroy(kernel);
	for (unsigned round = 1; round <= 3; round++) {
		sum = 0;
		for (unsigned i = 0; i < COUNT; i++)
			sum += data[i] = round * i;
		OK(vg_launch_list(stream, CONFIG(1, 1), list));
		OK(vg_stream_sync(stream));
		read_words(context, &got, where, sizeof got);
		CHECK_INT(got, sum);
	}
	OK(vg_argument_list_set(list, COUNT, &other, sizeof other));
	OK(vg_launch_list(stream, CONFIG(1, 1), list));
	OK(vg_stream_sync(stream));
	read_words(context, &got, where, sizeof got);
	CHECK_INT(got, sum - data[COUNT - 1] + other);
	REFUSED(vg_argument_list_set(list, 1, &other, 4), VG_INVALID, "has 4 bytes: the kernel takes 8");
	REFUSED(vg_argument_list_set(list, 1, NULL, 8), VG_INVALID, "argument 1 of kernel \"add\"");
	REFUSED(vg_argument_list_set(list, COUNT + 1, &other, 8), VG_INVALID, "argument 513: kernel \"add\" takes 513");
	REFUSED(vg_argument_list_set(NULL, 0, &other, 8), VG_INVALID, "list is NULL");
	REFUSED(vg_launch_list(stream, CONFIG(1, 2048), list), VG_INVALID, "takes at most 1024");
	REFUSED(vg_launch_list(stream, NULL, list), VG_INVALID, "config is NULL");
	REFUSED(vg_launch_list(NULL, CONFIG(1, 1), list), VG_INVALID, "stream is NULL");
	REFUSED(vg_launch_list(stream, CONFIG(1, 1), NULL), VG_INVALID, "list is NULL");
	OK(vg_argument_list_close(list));
	OK(vg_argument_list_close(list));
	REFUSED(vg_launch_list(stream, CONFIG(1, 1), list), VG_CLOSED, "the argument list has been closed");
	REFUSED(vg_argument_list_set(list, 0, &where, sizeof where), VG_CLOSED, "the argument list has been closed");
	vg_argument_list_destroy(list);
	vg_argument_list_destroy(NULL);
	free_words(context, where);
	vg_object_code_destroy(own);
}

TEST(invalid_configurations_are_refused)
{
	struct vg_kernel *kernel = kernel_of("empty");

	REFUSED(vg_launch(stream, NULL, kernel, NULL, 0), VG_INVALID, "config is NULL");
	REFUSED(vg_launch(NULL, CONFIG(1, 1), kernel, NULL, 0), VG_INVALID, "stream is NULL");
	REFUSED(vg_launch(stream, CONFIG(1, 1), NULL, NULL, 0), VG_INVALID, "kernel is NULL");
	REFUSED(vg_launch(stream, CONFIG(0, 1), kernel, NULL, 0), VG_INVALID, "grid is 0 x 0 x 0");
	REFUSED(vg_launch(stream, CONFIG(1, 0), kernel, NULL, 0), VG_INVALID, "block is 0 x 0 x 0");
	REFUSED(vg_launch(stream, CONFIG(1, 1, .cluster = {0, 2}), kernel, NULL, 0), VG_INVALID,
		"cluster is 0 x 2 x 0");
	REFUSED(vg_launch(stream, CONFIG(1u << 31, 1, .cluster = {2}), kernel, NULL, 0), VG_INVALID, "is too large");
	REFUSED(vg_launch(stream, CONFIG(1, 1, .shared_memory = 1ul << 32), kernel, NULL, 0), VG_INVALID,
		"4294967296 bytes of dynamic shared memory");
	REFUSED(vg_launch(stream, CONFIG(1, 1, .attribute_count = 1), kernel, NULL, 0), VG_INVALID,
		"attributes is NULL");
	REFUSED(vg_launch(stream, CONFIG(1, 1, .attributes = "", .attribute_count = 33), kernel, NULL, 0), VG_INVALID,
		"33 launch attributes");
	REFUSED(vg_launch(stream, &(struct vg_launch_config){.size = 4}, kernel, NULL, 0), VG_INVALID, "size is 4");
	vg_kernel_destroy(kernel);
}

TEST(errors_of_the_device_are_explained)
{
	struct vg_kernel *kernel = kernel_of("empty"), *bound = kernel_of("meet");

	REFUSED(vg_launch(stream, CONFIG(1, 2048), kernel, NULL, 0), VG_INVALID, "takes at most 1024");
	REFUSED(vg_launch(stream,
			  &(struct vg_launch_config){sizeof(struct vg_launch_config), .grid = {1}, .block = {1024, 2}},
			  kernel, NULL, 0),
		VG_INVALID, "a block of 2048 threads: kernel \"empty\" takes at most 1024");
	REFUSED(vg_launch(stream,
			  &(struct vg_launch_config){sizeof(struct vg_launch_config), .grid = {1, 65536}, .block = {1}},
			  kernel, NULL, 0),
		VG_INVALID, "a grid of 1 x 65536 x 1: device 0 takes at most 65535 in dimension y");
	REFUSED(vg_launch(stream, CONFIG(1, 1, .shared_memory = 64 * 1024), kernel, NULL, 0), VG_INVALID,
		"65536 bytes of dynamic shared memory: kernel \"empty\" may use 49152");
	REFUSED(vg_launch(stream, CONFIG(1, 128), bound, VG_ARGUMENTS((vg_address)0)), VG_INVALID,
		"kernel \"meet\" takes at most 64");
	OK(vg_stream_sync(stream));
	vg_kernel_destroy(kernel);
	vg_kernel_destroy(bound);
}

TEST(grid_dimensions)
{
	struct vg_kernel *kernel = kernel_of("shape");
	vg_address where = words(context, 6 * sizeof(unsigned));
	unsigned got[6];

	OK(vg_launch(stream,
		     &(struct vg_launch_config){sizeof(struct vg_launch_config), .grid = {5, 0, 3}, .block = {8, 4},
						.cluster = {1, 1}},
		     kernel, VG_ARGUMENTS(where)));
	OK(vg_stream_sync(stream));
	read_words(context, got, where, sizeof got);
	CHECK(got[0] == 5 && got[1] == 1 && got[2] == 3 && got[3] == 8 && got[4] == 4 && got[5] == 1);
	free_words(context, where);
	vg_kernel_destroy(kernel);
}

TEST(the_grid_counts_clusters)
{
	struct vg_kernel *kernel = kernel_of("shape");
	vg_address where = words(context, 6 * sizeof(unsigned));
	unsigned got[6];

	OK(vg_launch(stream, CONFIG(4, 32, .cluster = {2}), kernel, VG_ARGUMENTS(where)));
	OK(vg_stream_sync(stream));
	read_words(context, got, where, sizeof got);
	CHECK_INT(got[0], 8);
	REFUSED(vg_launch(stream, CONFIG(4, 32, .cluster = {16}), kernel, VG_ARGUMENTS(where)), VG_INVALID,
		"a cluster of 16 x 1 x 1 blocks: kernel \"shape\" takes 8");
	free_words(context, where);
	vg_kernel_destroy(kernel);
}

TEST(clusters_fixed_by_the_source)
{
	static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
				  ".visible .entry pair() .reqnctapercluster 2, 1, 1 { ret; }\n";
	struct vg_object_code *pairs;
	struct vg_kernel *pair;
	int width;

	vg_kernel_destroy(kernel_of("empty"));
	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &pairs));
	OK(vg_object_code_kernel(pairs, "pair", &pair));
	OK(vg_kernel_get_attribute(pair, vg_context_device(context), VG_KERNEL_REQUIRED_CLUSTER_WIDTH, &width));
	CHECK_INT(width, 2);
	OK(vg_launch(stream, CONFIG(3, 32, .cluster = {2}), pair, NULL, 0));
	REFUSED(vg_launch(stream, CONFIG(3, 32, .cluster = {4}), pair, NULL, 0), VG_INVALID,
		"a cluster of 4 x 1 x 1 blocks: kernel \"pair\" is made for 2 x 1 x 1");
	OK(vg_launch(stream, CONFIG(4, 32), pair, NULL, 0)); // without a cluster size, the grid is given in blocks
	REFUSED(vg_launch(stream, CONFIG(3, 32), pair, NULL, 0), VG_INVALID,
		"a grid of 3 x 1 x 1 blocks: kernel \"pair\" is made for clusters of 2 x 1 x 1, and needs whole ones");
	OK(vg_stream_sync(stream));
	vg_kernel_destroy(pair);
	vg_object_code_destroy(pairs);
}

TEST(cooperative_launches)
{
	struct vg_kernel *kernel = kernel_of("meet");
	vg_address where = words(context, 2 * sizeof(int));
	int got[2];

	OK(vg_launch(stream, CONFIG(2, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where)));
	OK(vg_stream_sync(stream));
	read_words(context, got, where, sizeof got);
	CHECK_INT(got[1], 128);
	REFUSED(vg_launch(stream, CONFIG(1u << 20, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where)), VG_LIMIT,
		"a cooperative grid of 1048576 blocks exceeds the limit");
	CUlaunchAttribute again = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
	REFUSED(vg_launch(stream, CONFIG(1u << 20, 64, .attributes = &again, .attribute_count = 1), kernel,
			  VG_ARGUMENTS(where)),
		VG_LIMIT, "exceeds the limit");
	REFUSED(vg_launch(stream, CONFIG(1, 64, .cooperative = 1, .attributes = &again, .attribute_count = 1), kernel,
			  VG_ARGUMENTS(where)),
		VG_INVALID, "attributes[0] says again what the field cooperative says");
	free_words(context, where);
	vg_kernel_destroy(kernel);
}

TEST(cooperative_launches_in_a_green_context)
{
	struct vg_kernel *kernel = kernel_of("meet");
	struct vg_context_options options = {.size = sizeof options, .sm_count = 1};
	struct vg_sm_resource *all, *group;
	struct vg_context *green;
	struct vg_stream *inside;
	unsigned each;
	char part[64];
	size_t made;

	OK(vg_device_sm_resource(vg_context_device(context), &all));
	OK(vg_sm_resource_split_by_count(all, 8, 0, 1, &group, &made, NULL));
	options.sms = &group;
	OK(vg_context_create(vg_context_device(context), &options, &green));
	OK(vg_stream_create(green, NULL, &inside));
	OK(vg_kernel_max_active_blocks(kernel, context, 64, 0, &each));
	vg_address where = words(context, 2 * sizeof(int));
	unsigned fits = each * vg_sm_resource_count(group);
	OK(vg_launch(inside, CONFIG(fits, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where)));
	OK(vg_stream_sync(inside));
	snprintf(part, sizeof part, "on each of %u SMs", vg_sm_resource_count(group));
	REFUSED(vg_launch(inside, CONFIG(fits + 1, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where)), VG_LIMIT, part);
	OK(vg_launch(stream, CONFIG(fits + 1, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where)));
	OK(vg_stream_sync(stream));
	free_words(context, where);
	vg_stream_destroy(inside);
	vg_context_destroy(green);
	vg_sm_resource_destroy(group);
	vg_sm_resource_destroy(all);
	vg_kernel_destroy(kernel);
}

TEST(attributes_are_passed_to_the_driver)
{
	struct vg_kernel *kernel = kernel_of("empty");
	CUlaunchAttribute priority = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 0};
	CUlaunchAttribute unknown = {.id = (CUlaunchAttributeID)999};

	OK(vg_launch(
		stream,
		CONFIG(1, 1, .attributes = &priority, .attribute_count = 1, .programmatic_stream_serialization = 1),
		kernel, NULL, 0));
	REFUSED(vg_launch(stream, CONFIG(1, 1, .attributes = &unknown, .attribute_count = 1), kernel, NULL, 0),
		VG_DRIVER, "cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE");
	CHECK_CONTAINS(vg_last_error()->text, "1 attributes");
	OK(vg_stream_sync(stream));
	vg_kernel_destroy(kernel);
}

TEST(a_prepared_launch_runs_many_times)
{
	struct vg_kernel *kernel = kernel_of("store");
	vg_address where = words(context, 5 * sizeof(long long));
	struct vg_prepared_launch *launch;
	long long got[5];

	OK(vg_launch_prepare(context, CONFIG(1, 1), kernel, NULL, 0, &launch));
	OK(vg_launch_set_argument(launch, 0, &where, sizeof where));
	REFUSED(vg_launch_run(launch, stream), VG_STATE,
		"argument 1 of kernel \"store\" (counted from 0) was never set");
	OK(vg_launch_set_argument(launch, 1, &(char){1}, 1));
	OK(vg_launch_set_argument(launch, 2, &(short){2}, 2));
	OK(vg_launch_set_argument(launch, 3, &(int){3}, 4));
	OK(vg_launch_set_argument(launch, 4, &(double){4}, 8));
	OK(vg_launch_set_argument(launch, 5, &(char){5}, 1));
	vg_kernel_destroy(kernel); // the prepared launch keeps the kernel
	for (int i = 0; i < 100; i++) {
		OK(vg_launch_set_argument(launch, 3, &i, sizeof i));
		OK(vg_launch_run(launch, stream));
	}
	OK(vg_stream_sync(stream));
	read_words(context, got, where, sizeof got);
	CHECK(got[0] == 1 && got[1] == 2 && got[2] == 99 && got[3] == 4 && got[4] == 5);
	REFUSED(vg_launch_set_argument(launch, 3, &(long){1}, 8), VG_INVALID, "has 8 bytes: the kernel takes 4");
	REFUSED(vg_launch_set_argument(launch, 6, &(long){1}, 8), VG_INVALID, "argument 6: kernel \"store\" takes 6");
	REFUSED(vg_launch_set_argument(launch, 3, NULL, 4), VG_INVALID, "value is NULL");
	REFUSED(vg_launch_run(launch, NULL), VG_INVALID, "stream is NULL");
	OK(vg_prepared_launch_close(launch));
	OK(vg_prepared_launch_close(launch));
	REFUSED(vg_launch_run(launch, stream), VG_CLOSED, "the prepared launch has been closed");
	vg_prepared_launch_destroy(launch);
	vg_prepared_launch_destroy(NULL);
	free_words(context, where);
}

// Launches without a current context. The stream determines the context; for a default stream the library makes a
// context current.
static void launch_without_context(struct vg_stream *on)
{
	struct vg_kernel *kernel = kernel_of("store");
	vg_address where = words(context, 5 * sizeof(long long));
	int i = 0;
	const struct vg_variable variables[] = {VG_VARIABLE(where), VG_VARIABLE((char){1}),   VG_VARIABLE((short){2}),
						VG_VARIABLE(i),	    VG_VARIABLE((double){4}), VG_VARIABLE((char){5})};
	struct vg_argument arguments[6];
	struct vg_prepared_launch *prepared;
	struct vg_argument_list *list;
	struct CUctx_st *now;
	long long got[5];

	for (i = 0; i < 6; i++)
		arguments[i] = variables[i].place;
	OK(vg_argument_list_create(kernel, variables, 6, &list));
	for (i = 1; i <= 4; i++) {
		OK(vg_launch_prepare(context, CONFIG(1, 1), kernel, arguments, 6, &prepared));
		OK(vg_context_set_current(NULL, NULL));
		if (i == 1)
			OK(vg_launch(on, CONFIG(1, 1), kernel, arguments, 6));
		else if (i == 2)
			OK(vg_launch_list(on, CONFIG(1, 1), list));
		else if (i == 3)
			OK(vg_launch_run(prepared, on));
		else
			OK(vg_launch(on, CONFIG(1, 1, .cooperative = 1), kernel, arguments, 6));
		REFUSED(vg_launch(on, CONFIG(1, 4096), kernel, arguments, 6), VG_INVALID, "a block of 4096 x 1 x 1");
		OK(vg_stream_sync(on));
		OK(vg_context_current(&now));
		CHECK(!now);
		read_words(context, got, where, sizeof got);
		CHECK_INT(got[2], i);
		vg_prepared_launch_destroy(prepared);
	}
	vg_argument_list_destroy(list);
	vg_kernel_destroy(kernel);
	free_words(context, where);
}

TEST(a_launch_needs_no_current_context)
{
	struct vg_stream *legacy, *per_thread;

	vg_kernel_destroy(kernel_of("empty"));
	launch_without_context(stream);
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_LEGACY, &legacy));
	launch_without_context(legacy);
	OK(vg_stream_default(context, VG_DEFAULT_STREAM_PER_THREAD, &per_thread));
	launch_without_context(per_thread);
	vg_stream_destroy(per_thread);
	vg_stream_destroy(legacy);
}

TEST(a_launch_is_checked_when_it_is_prepared)
{
	struct vg_kernel *kernel = kernel_of("meet");
	struct vg_prepared_launch *launch = NULL;
	vg_address where = words(context, 8);

	REFUSED(vg_launch_prepare(context, CONFIG(1, 128), kernel, NULL, 0, &launch), VG_INVALID, "takes at most 64");
	REFUSED(vg_launch_prepare(context, CONFIG(1, 64, .shared_memory = 64 * 1024), kernel, NULL, 0, &launch),
		VG_INVALID, "may use 49152");
	REFUSED(vg_launch_prepare(context, CONFIG(1u << 20, 64, .cooperative = 1), kernel, NULL, 0, &launch), VG_LIMIT,
		"exceeds the limit");
	REFUSED(vg_launch_prepare(context, CONFIG(1, 64), kernel, VG_ARGUMENTS(1), &launch), VG_INVALID,
		"argument 0 of kernel \"meet\" (counted from 0) has 4 bytes");
	REFUSED(vg_launch_prepare(NULL, CONFIG(1, 64), kernel, NULL, 0, &launch), VG_INVALID, "context is NULL");
	CHECK(launch == NULL);
	OK(vg_launch_prepare(context, CONFIG(2, 64, .cooperative = 1), kernel, VG_ARGUMENTS(where), &launch));
	OK(vg_launch_run(launch, stream));
	OK(vg_stream_sync(stream));
	vg_prepared_launch_destroy(launch);
	free_words(context, where);
	vg_kernel_destroy(kernel);
}

TEST(nothing_leaks)
{
	// The address sanitizer reports what the tests above leaked.
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	context = NULL;
}
