// Looks up driver functions by name, version and stream variant, including functions that the driver or the interposer
// does not know.
#include "tenant.h"

#include "fake_driver.h"

// Makes the first driver call of a new process. It has a float argument, and arguments on the stack.
static void first_call_body(void)
{
	void *fake;

	CHECK_INT(cuParamSetf(NULL, 0, 2.5f), CUDA_SUCCESS);
	fake = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);
	CHECK(((float (*)(void))dlsym(fake, "fake_float"))() == 2.5f);
}

static void first_stack_body(void)
{
	CHECK_INT(cuLaunchKernel_ptsz((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9, (void **)10, (void **)11),
		  CUDA_SUCCESS);
}

TEST(arguments_survive_the_loading_of_the_driver)
{
	CHECK_INT(tenant_run(first_call_body), 0);
	CHECK_INT(tenant_run(first_stack_body), 0);
}

static void no_driver_body(void)
{
	setenv("VIRGATE_DRIVER", "/nonexistent/libcuda.so.1", 1);
	CHECK_INT(cuInit(0), CUDA_ERROR_NO_DEVICE);
	CHECK_INT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_NO_DEVICE);
}

TEST(without_a_driver_there_is_no_device)
{
	CHECK_INT(tenant_run(no_driver_body), 0);
}

static void *look_up(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *address = NULL, *old = NULL;
	CUresult result = cuGetProcAddress_v2(name, &address, version, flags, &status);

	CHECK_INT(cuGetProcAddress(name, &old, version, flags) == CUDA_SUCCESS, address != NULL);
	CHECK(old == address);
	CHECK_INT(status == CU_GET_PROC_ADDRESS_SUCCESS, address != NULL);
	CHECK_INT(result == CUDA_SUCCESS, address != NULL);
	return address;
}

TEST(lookups_return_our_export_of_the_same_row)
{
	CHECK(look_up("cuMemAlloc", 12000, 0) == (void *)cuMemAlloc_v2);
	CHECK(look_up("cuMemAlloc", 3020, 0) == (void *)cuMemAlloc_v2);
	CHECK(look_up("cuLaunchKernel", 12000, 0) == (void *)cuLaunchKernel);
	CHECK(look_up("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
	      (void *)cuLaunchKernel_ptsz);
}

TEST(lookups_find_the_lookup_function)
{
	CHECK(look_up("cuGetProcAddress", 11030, 0) == (void *)cuGetProcAddress);
	CHECK(look_up("cuGetProcAddress", 12000, 0) == (void *)cuGetProcAddress_v2);
}

TEST(entries_missing_in_the_driver_are_not_found)
{
	// The interposer exports this name, but the driver does not have it.
	CHECK(!look_up("cuMemAllocManaged", 12000, 0));
	CHECK(!look_up("cuMemAlloc", 2000, 0));
	CHECK(!look_up("cuNoSuchThing", 12000, 0));
}

TEST(missing_entries_can_be_called)
{
	CUtexref reference;

	CHECK_INT(cuTexRefCreate(&reference), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(arguments_arrive_in_the_first_and_second_call)
{
	void *fake = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);
	float (*seen)(void) = (float (*)(void))dlsym(fake, "fake_float");

	for (int i = 0; i < 2; i++) {
		CHECK_INT(
			cuLaunchKernel_ptsz((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9, (void **)10, (void **)11),
			CUDA_SUCCESS);
		CHECK_INT(cuParamSetf(NULL, 0, 1.25f + (float)i), CUDA_SUCCESS);
		CHECK(seen() == 1.25f + (float)i);
	}
}

static void ask_body(void)
{
	// The interposer does not know this function, but queries allocate nothing.
	CHECK(look_up("cuVirgateTestNewQuery", 13000, 0));
	// This unknown function might allocate without a charge.
	CHECK(!look_up("cuVirgateTestNewAlloc", 13000, 0));
	CHECK(look_up("cuMemCreate", 13000, 0) == (void *)cuMemCreate);
	// The program asks for a later version, which is another function under the same name.
	CHECK(!look_up("cuMemCreate", 13010, 0));
}

TEST(unknown_allocators_are_refused_in_a_vgpu)
{
	TENANT(64 * MIB, 0, ask_body);
	unsetenv("VIRGATE_LEDGER");
}

static void ask_free_body(void)
{
	CHECK(look_up("cuVirgateTestNewAlloc", 13000, 0));
	CHECK(look_up("cuMemCreate", 13010, 0) != (void *)cuMemCreate);
}

TEST(unknown_allocators_pass_outside_a_vgpu)
{
	CHECK_INT(tenant_run(ask_free_body), 0);
}

TEST(dlopen_returns_the_interposer_for_all_usual_names)
{
	void *self = dlsym(RTLD_DEFAULT, "cuInit");
	static const char *const names[] = {"libcuda.so.1", "libcuda.so", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
					    "/usr/local/cuda/lib64/stubs/libcuda.so", "./libcuda.so.580.65.06"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *handle = dlopen(names[i], RTLD_LAZY);
		CHECK(handle);
		CHECK(dlsym(handle, "cuInit") == self);
		dlclose(handle);
	}
	CHECK(!dlopen("libcudart-of-nobody.so", RTLD_LAZY));
	CHECK(!dlopen("/nonexistent/libcuda.so.x", RTLD_LAZY));
	CHECK(dlopen(NULL, RTLD_LAZY));
}
