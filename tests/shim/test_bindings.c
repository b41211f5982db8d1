// Against the fake driver: memory that something else keeps alive, and memory from elsewhere.
#include "tenant.h"

#include "fake_driver.h"

#define RANGE 0x600000000000ull // any address will do: the fake driver maps nothing

static void (*fail_entry)(const char *);
static CUmemGenericAllocationHandle memory, multicast;

static uint64_t charged(void)
{
	return vg_ledger_charged(tenant_ledger);
}

static void start(void)
{
	CUmemAllocationProp properties = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmulticastObjectProp object = {.numDevices = 1, .size = 8 * MIB};
	void *fake = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);

	CHECK(fake);
	fail_entry = (void (*)(const char *))dlsym(fake, "fake_fail");
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&memory, 8 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMulticastCreate(&multicast, &object), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB); // the object has no memory of its own
}

static void unbound_body(void)
{
	start();
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 4 * MIB, 0), CUDA_SUCCESS);
	CHECK_INT(cuMulticastBindMem(multicast, 4 * MIB, memory, 4 * MIB, 4 * MIB, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMulticastUnbind(multicast, 0, 0, 4 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	fail_entry("cuMulticastUnbind");
	CHECK_INT(cuMulticastUnbind(multicast, 0, 4 * MIB, 4 * MIB), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 8 * MIB);
	fail_entry(NULL);
	CHECK_INT(cuMulticastUnbind(multicast, 0, 4 * MIB, 4 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
}

TEST(what_is_bound_stays_charged_until_it_is_unbound)
{
	TENANT(64 * MIB, 0, unbound_body);
}

static void mapped_body(void)
{
	start();
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemMap(RANGE, 8 * MIB, 0, multicast, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB); // through the mapping it can still be used
	CHECK_INT(cuMemUnmap(RANGE, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(a_mapped_multicast_object_keeps_what_is_bound)
{
	TENANT(64 * MIB, 0, mapped_body);
}

static void addresses_body(void)
{
	start();
	CHECK_INT(cuMemMap(RANGE, 8 * MIB, 0, memory, 0), CUDA_SUCCESS);
	CHECK_INT(cuMulticastBindAddr(multicast, 0, RANGE, 8 * MIB, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(RANGE, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(memory_is_bound_by_its_address_too)
{
	TENANT(64 * MIB, 0, addresses_body);
}

static void failed_body(void)
{
	start();
	fail_entry("cuMulticastBindMem");
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_ERROR_UNKNOWN);
	fail_entry("cuMulticastBindAddr");
	CHECK_INT(cuMulticastBindAddr(multicast, 0, RANGE, 8 * MIB, 0), CUDA_ERROR_UNKNOWN);
	fail_entry(NULL);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
}

TEST(a_binding_that_failed_keeps_nothing)
{
	TENANT(64 * MIB, 0, failed_body);
}

static void sparse_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
					 .Flags = CUDA_ARRAY3D_SPARSE};
	CUarrayMapInfo tile = {.resourceType = CU_RESOURCE_TYPE_ARRAY, .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			       .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC};

	start();
	CHECK_INT(cuArray3DCreate_v2(&tile.resource.array, &shape), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB); // 64 MiB of elements, and no memory yet
	tile.memHandle.memHandle = memory;
	fail_entry("cuMemMapArrayAsync");
	CHECK_INT(cuMemMapArrayAsync(&tile, 1, NULL), CUDA_ERROR_UNKNOWN);
	fail_entry(NULL);
	CHECK_INT(cuMemMapArrayAsync(&tile, 1, NULL), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuArrayDestroy(tile.resource.array), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
}

TEST(a_sparse_array_keeps_its_tiles)
{
	TENANT(64 * MIB, 0, sparse_body);
}

static void external_body(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC foreign = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 48 * MIB};
	CUexternalMemory imported, second;

	start();
	fail_entry("cuImportExternalMemory");
	CHECK_INT(cuImportExternalMemory(&imported, &foreign), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 8 * MIB);
	fail_entry(NULL);
	CHECK_INT(cuImportExternalMemory(&imported, &foreign), CUDA_SUCCESS);
	CHECK_INT(charged(), 56 * MIB);
	CHECK_INT(cuImportExternalMemory(&second, &foreign), CUDA_ERROR_OUT_OF_MEMORY);
	foreign.size = UINT64_MAX;
	CHECK_INT(cuImportExternalMemory(&second, &foreign), CUDA_ERROR_OUT_OF_MEMORY);
	fail_entry("cuDestroyExternalMemory");
	CHECK_INT(cuDestroyExternalMemory(imported), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 56 * MIB);
	fail_entry(NULL);
	CHECK_INT(cuDestroyExternalMemory(imported), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
}

TEST(external_memory_is_charged_to_who_imports_it)
{
	TENANT(64 * MIB, 0, external_body);
}
