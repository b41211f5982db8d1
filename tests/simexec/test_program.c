// Tests images, modules, libraries, links, attributes of functions.
#include "program.h"

#define HEAD ".version 8.0\n.target sm_52\n.address_size 64\n"

static void check_image(const void *image)
{
	CUfunction function;
	CUmodule module;
	CUdeviceptr data = words(4);
	int count = 4, by = 3;

	CU(cuModuleLoadData(&module, image));
	CU(cuModuleGetFunction(&function, module, "add"));
	CU(LAUNCH(function, 1, 32, 0, NULL, &data, &count, &by));
	CHECK_INT(word(data + 12), 3);
	CU(cuModuleUnload(module));
	CU(cuMemFree_v2(data));
}

TEST(ptx_and_fat_binaries)
{
	load_kernels();
	const char *const images[] = {"kernels.ptx", "plain.fatbin", "lz4.fatbin", "zstd.fatbin"};
	for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
		char *image = read_built(images[i], NULL);
		check_image(image);
		free(image);
	}
	// nvcc embeds a wrapper in programs, which has a pointer to the fat binary. Make such a wrapper.
	char *container = read_built("zstd.fatbin", NULL);
	struct {
		unsigned magic, version;
		const void *data, *file;
	} wrapper = {0x466243b1, 1, container, NULL};
	check_image(&wrapper);
	free(container);
}

#define LOAD(image) cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0)
TEST(wrappers_of_separable_compilation)
{
	char *container = read_built("zstd.fatbin", NULL);
	const void *modules[] = {container, NULL, NULL};
	struct {
		unsigned magic, version;
		const void *data, *const *modules;
	} wrapper = {0x466243b1, 2, container, modules};
	CUlibrary library = NULL;
	CUkernel kernel;

	load_kernels();
	CU(LOAD(&wrapper));
	CU(cuLibraryGetKernel(&kernel, library, "add"));
	CU(cuLibraryUnload(library));
	library = NULL;
	modules[1] = container; // everything twice
	CU(LOAD(&wrapper));
	CHECK_INT(cuLibraryGetKernel(&kernel, library, "add"), CUDA_ERROR_INVALID_PTX);
	CU(cuLibraryUnload(library));
	library = NULL;
	modules[1] = "garbage";
	CHECK_INT(LOAD(&wrapper), CUDA_ERROR_INVALID_IMAGE);
	modules[0] = NULL;
	CHECK_INT(LOAD(&wrapper), CUDA_ERROR_NO_BINARY_FOR_GPU);
	wrapper.modules = NULL;
	CHECK_INT(LOAD(&wrapper), CUDA_ERROR_INVALID_IMAGE);
	CHECK(library == NULL);
	free(container);
}

TEST(images_are_compressed_as_named)
{
	size_t plain, lz4, zstd;
	free(read_built("plain.fatbin", &plain));
	free(read_built("lz4.fatbin", &lz4));
	free(read_built("zstd.fatbin", &zstd));
	CHECK(zstd < lz4 && lz4 < plain);
}

TEST(damaged_and_foreign_images_are_refused)
{
	CUmodule module = NULL;
	size_t size;

	load_kernels();
	char *image = read_built("zstd.fatbin", &size);
	// damage the header of the zstd frame, because damage elsewhere may remain undetected
	char *frame = memmem(image, size, "\x28\xb5\x2f\xfd", 4);
	CHECK(frame != NULL);
	frame[4] ^= 0xff;
	CHECK_INT(cuModuleLoadData(&module, image), CUDA_ERROR_INVALID_IMAGE);
	free(image);
	char *machine = read_built("machine.cubin", NULL);
	CHECK_INT(cuModuleLoadData(&module, machine), CUDA_ERROR_NO_BINARY_FOR_GPU);
	free(machine);
	CHECK_INT(cuModuleLoadData(&module, "garbage"), CUDA_ERROR_INVALID_IMAGE);
	CHECK_INT(cuModuleLoad(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
	CHECK(module == NULL);
}

TEST(an_unsupported_instruction_refuses_only_its_kernel)
{
	static const char refusal[] = "line 10: instruction \"tex.2dms.v4.f32.s32\" is not supported by the simulated "
				      "GPU (kernel bad)\n";
	static const char text[] =
		HEAD ".visible .entry good() { ret; }\n"
		     ".visible .entry bad(.param .u64 p) {\n.reg .f32 %f<5>;\n.reg .u64 %rd<2>;\n.reg .s32 %r<3>;\n"
		     "ld.param.u64 %rd1, [p];\n"
		     "tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r1, %r1, %r1}];\nret;\n}\n";
	char log[4096] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};
	CUlogIterator before;
	size_t length = sizeof log;
	CUfunction function;
	CUlibrary library;
	CUmodule module;
	CUkernel entry;

	load_kernels();
	CU(cuModuleLoadDataEx(&module, text, 2, options, values));
	CU(cuModuleGetFunction(&function, module, "good"));
	CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CU(cuCtxSynchronize());
	CHECK_STR(log, refusal);
	CHECK_INT((int)(uintptr_t)values[1], (int)strlen(log));
	CU(cuLogsCurrent(&before, 0));
	CHECK_INT(cuModuleGetFunction(&function, module, "bad"), CUDA_ERROR_NOT_SUPPORTED);
	CU(cuLogsDumpToMemory(&before, log, &length, 0));
	CHECK_STR(log, refusal);
	CU(cuModuleUnload(module));
	CU(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	length = sizeof log;
	CHECK_INT(cuLibraryGetKernel(&entry, library, "bad"), CUDA_ERROR_NOT_SUPPORTED);
	CU(cuLogsDumpToMemory(&before, log, &length, 0));
	CHECK_CONTAINS(log, "line 10: instruction");
	CU(cuLibraryUnload(library));
}

TEST(variables_take_device_memory)
{
	CUdeviceptr address;
	size_t size, before, after, total;
	CUmodule module;

	load_kernels();
	CU(cuModuleGetGlobal_v2(&address, &size, kernels, "counter"));
	CHECK_INT(size, 4);
	CHECK_INT(word(address), 5);
	CU(cuModuleGetGlobal_v2(&address, &size, kernels, "table"));
	CHECK_INT(size, 16);
	CHECK_INT(cuModuleGetGlobal_v2(&address, &size, kernels, "nothing"), CUDA_ERROR_NOT_FOUND);
	CU(cuMemGetInfo_v2(&before, &total));
	CU(cuModuleLoadData(&module, HEAD ".visible .global .align 4 .b8 room[67108864];\n"
					  ".visible .entry e() { ret; }"));
	CU(cuMemGetInfo_v2(&after, &total));
	CHECK(before - after >= 64 * MIB);
	CU(cuModuleUnload(module));
	CU(cuMemGetInfo_v2(&after, &total));
	CHECK_INT(after, before);
}

TEST(modules_can_be_linked)
{
	static const char one[] =
		HEAD ".extern .func (.param .b32 r) twice(.param .b32 a);\n"
		     ".visible .entry main_entry(.param .u64 p) {\n.reg .u64 %rd<2>;\n.reg .b32 %r<3>;\n"
		     "ld.param.u64 %rd1, [p];\nld.u32 %r1, [%rd1];\n"
		     "{ .param .b32 a0; st.param.b32 [a0], %r1; .param .b32 r0;\ncall (r0), twice, (a0);\n"
		     "ld.param.b32 %r2, [r0]; }\nst.u32 [%rd1], %r2;\nret;\n}\n";
	static const char two[] =
		HEAD ".visible .func (.param .b32 r) twice(.param .b32 a) {\n.reg .b32 %r<3>;\n"
		     "ld.param.b32 %r1, [a];\nadd.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";
	CUlinkState link;
	CUmodule module;
	CUfunction function;
	CUdeviceptr data;
	void *image;
	size_t size;

	load_kernels();
	CU(cuLinkCreate_v2(0, NULL, NULL, &link));
	CU(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)one, sizeof one, "one", 0, NULL, NULL));
	// the linked code calls twice(), which is not defined
	CHECK_INT(cuLinkComplete(link, &image, &size), CUDA_ERROR_INVALID_PTX);
	CU(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)two, sizeof two, "two", 0, NULL, NULL));
	CU(cuLinkComplete(link, &image, &size));
	CU(cuModuleLoadData(&module, image));
	CU(cuLinkDestroy(link));
	CU(cuModuleGetFunction(&function, module, "main_entry"));
	data = words(1);
	CU(cuMemsetD32_v2(data, 21, 1));
	CU(LAUNCH(function, 1, 1, 0, NULL, &data));
	CHECK_INT(word(data), 42);
	CU(cuModuleUnload(module));
}

TEST(libraries_and_kernels)
{
	CUlibrary library;
	CUkernel entry, listed[64];
	CUfunction function;
	CUdeviceptr data, address;
	unsigned count;
	size_t size, offset;
	const char *name;
	int n = 1, by = 9, value;

	load_kernels();
	char *ptx = read_built("kernels.ptx", NULL);
	CU(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	free(ptx);
	CU(cuLibraryGetKernelCount(&count, library));
	CHECK(count >= 10 && count <= 64);
	CU(cuLibraryEnumerateKernels(listed, count, library));
	CU(cuLibraryGetKernel(&entry, library, "add"));
	CHECK_INT(cuLibraryGetKernel(&entry, library, "nothing"), CUDA_ERROR_NOT_FOUND);
	CU(cuKernelGetName(&name, entry));
	CHECK_STR(name, "add");
	CU(cuKernelGetParamInfo(entry, 2, &offset, &size));
	CHECK_INT(offset, 12);
	CHECK_INT(size, 4);
	CU(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, entry, 0));
	CU(cuKernelGetFunction(&function, entry));
	CU(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	CHECK_INT(value, 100000);
	data = words(1);
	// the program passes a kernel where a function is expected, which is allowed
	CU(LAUNCH((CUfunction)entry, 1, 1, 0, NULL, &data, &n, &by));
	CHECK_INT(word(data), 9);
	CU(cuLibraryGetGlobal(&address, &size, library, "counter"));
	CHECK_INT(word(address), 5);
	CU(cuLibraryUnload(library));
	CHECK_INT(cuLibraryUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
}

// Loads invalid images. Both the driver's error log and the log of the call must contain the reason.
TEST(refused_images_are_explained)
{
	static const struct {
		const char *text, *why;
		CUresult result;
	} cases[] = {
		{HEAD ".visible .entry a() {\nnonsense.u32 %r1;\nret; }",
		 "line 5: error: register '%r1' is not declared", CUDA_ERROR_INVALID_PTX},
		{HEAD ".visible .entry a() {\n.reg .u32 %r<2>;\nnonsense.u32 %r1;\nret; }",
		 "line 6: error: unknown instruction 'nonsense.u32'", CUDA_ERROR_INVALID_PTX},
		{"garbage", "the image is neither PTX nor a fat binary", CUDA_ERROR_INVALID_IMAGE},
		{"\177ELF", "the image holds no PTX that this device can run", CUDA_ERROR_NO_BINARY_FOR_GPU},
	};
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	CUmodule module;

	load_kernels();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char jit[1024] = "", log[1024] = "";
		void *values[] = {jit, (void *)sizeof jit};
		size_t length = sizeof log;
		CUlogIterator before;
		CU(cuLogsCurrent(&before, 0));
		CHECK_INT(cuModuleLoadDataEx(&module, cases[i].text, 2, options, values), cases[i].result);
		CU(cuLogsDumpToMemory(&before, log, &length, 0));
		CHECK_CONTAINS(jit, cases[i].why);
		CHECK_CONTAINS(log, cases[i].why);
		CHECK(strstr(log, "\n\n") == NULL);
	}
}

#define MANAGED ".visible .global .attribute(.managed) .align 8 "

// Loads a library twice. The first load fails because memory is short. The second load must still initialize the
// managed variables.
TEST(managed_variables_of_a_load_that_failed)
{
	static const char text[] = HEAD MANAGED ".u32 counter = 5;\n.visible .global .align 4 .b8 room[268435456];\n"
						".visible .entry e() { ret; }";
	CUlibrary library;
	CUmodule module;
	CUdeviceptr taken, counter;

	load_kernels();
	CU(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	CU(cuMemAlloc_v2(&taken, 800 * MIB));
	CHECK_INT(cuLibraryGetModule(&module, library), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemFree_v2(taken));
	CU(cuLibraryGetModule(&module, library));
	CU(cuLibraryGetManaged(&counter, NULL, library, "counter"));
	CHECK_INT(*(const int *)counter, 5);
	CU(cuLibraryUnload(library));
}

TEST(managed_variables_that_need_a_context)
{
	static const char text[] = HEAD ".visible .global .align 4 .u32 plain = 9;\n" MANAGED ".u64 pointer = plain;\n"
					".visible .entry e() { ret; }";
	CUlibrary library;
	CUdeviceptr pointer, plain;
	CUcontext context;

	load_kernels();
	CU(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	CU(cuCtxPopCurrent_v2(&context));
	CHECK_INT(cuLibraryGetManaged(&pointer, NULL, library, "pointer"), CUDA_ERROR_INVALID_CONTEXT);
	CU(cuCtxPushCurrent_v2(context));
	CU(cuLibraryGetManaged(&pointer, NULL, library, "pointer"));
	CU(cuLibraryGetGlobal(&plain, NULL, library, "plain"));
	CHECK(*(const CUdeviceptr *)pointer == plain);
	CU(cuLibraryUnload(library));
	CU(cuLibraryLoadData(&library, HEAD "nonsense", NULL, NULL, 0, NULL, NULL, 0));
	CHECK_INT(cuLibraryGetManaged(&pointer, NULL, library, "pointer"), CUDA_ERROR_INVALID_PTX);
	CU(cuLibraryUnload(library));
}

TEST(shared_memory_beyond_the_default_needs_an_attribute)
{
	CUfunction function;
	CUdeviceptr data;

	load_kernels();
	function = kernel("dynamic");
	data = words(1);
	CHECK_INT(LAUNCH(function, 1, 32, 100000, NULL, &data), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024 + 1),
		  CUDA_ERROR_INVALID_VALUE);
	CU(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
	CU(LAUNCH(function, 1, 32, 227 * 1024, NULL, &data));
	CHECK_INT(word(data), 31 * 32 / 2);
}

TEST(occupancy_follows_shared_memory)
{
	int few, many, grid, block;
	size_t available;
	CUfunction function;

	load_kernels();
	function = kernel("dynamic");
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&many, kernel("empty"), 128, 0));
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&few, function, 128, 100 * 1024));
	CHECK_INT(many, 16);
	CHECK_INT(few, 2);
	CU(cuOccupancyAvailableDynamicSMemPerBlock(&available, kernel("empty"), 2, 128));
	CHECK_INT(available, 113 * 1024);
	CU(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel("empty"), NULL, 0, 0));
	CHECK_INT(block, 1024);
	CHECK_INT(grid, 2 * 132);
	CHECK_INT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&few, function, 0, 0), CUDA_ERROR_INVALID_VALUE);
}
