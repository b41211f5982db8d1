// Tests memory that multicast objects and sparse arrays keep allocated, and external memory, with the fake driver.
#include "tenant.h"

#include "fake_driver.h"
#include "pager/page.h"

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
	CHECK_INT(charged(), 8 * MIB); // a multicast object has no memory of its own
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

TEST(bound_memory_stays_charged_until_unbound)
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
	CHECK_INT(charged(), 8 * MIB); // the mapping keeps the memory allocated
	CHECK_INT(cuMemUnmap(RANGE, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(mapped_multicast_objects_keep_bound_memory)
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

TEST(memory_bound_by_address_stays_charged)
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

TEST(failed_bindings_keep_nothing)
{
	TENANT(64 * MIB, 0, failed_body);
}

static void sparse_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 4096,
					 .Height = 4096,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 1,
					 .Flags = CUDA_ARRAY3D_SPARSE};
	CUarrayMapInfo tile = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			       .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			       .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC};

	start();
	CHECK_INT(cuArray3DCreate_v2(&tile.resource.array, &shape), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB); // the array has 64 MiB of elements, but no memory yet
	tile.memHandle.memHandle = memory;
	fail_entry("cuMemMapArrayAsync");
	CHECK_INT(cuMemMapArrayAsync(&tile, 1, NULL), CUDA_ERROR_UNKNOWN);
	fail_entry(NULL);
	for (int i = 0; i < 3; i++) // mapping the memory three times still charges it once
		CHECK_INT(cuMemMapArrayAsync(&tile, 1, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuArrayDestroy(tile.resource.array), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
}

TEST(sparse_arrays_keep_their_tiles)
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

TEST(external_memory_is_charged_to_the_importer)
{
	TENANT(64 * MIB, 0, external_body);
}

// The following tests are about memory in an evictable vGPU that a multicast object or another GPU can use. Such memory
// stays on the device, and counts against the fixed part.
static const struct pager_slot *slot;
static unsigned int (*last_access)(void);

static void start_evictable(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

	start();
	last_access = (unsigned int (*)(void))dlsym(dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW), "fake_access");
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&memory, 8 * MIB, &properties, 0), CUDA_SUCCESS);
	slot = vg_ledger_pager_slots(tenant_ledger);
	CHECK_INT(slot->bytes, 8 * MIB);
	CHECK_INT(slot->charged, 8 * MIB);
}

static void check_stays(void)
{
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(charged(), 8 * MIB);
}

static void run_evictable(uint64_t fixed, void (*body)(void))
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = tenant_fixed = fixed;
	TENANT(64 * MIB, 0, body);
	tenant_flags = 0;
	tenant_swap = tenant_fixed = 0;
}

static void bound_stays_body(void)
{
	start_evictable();
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_SUCCESS);
	check_stays();
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	check_stays();
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(memory_bound_to_a_multicast_object_stays_on_the_device)
{
	run_evictable(32 * MIB, bound_stays_body);
}

static void bound_address_stays_body(void)
{
	start_evictable();
	CHECK_INT(cuMemMap(RANGE, 8 * MIB, 0, memory, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(cuMulticastBindAddr(multicast, 0, RANGE + 2 * MIB, 2 * MIB, 0), CUDA_SUCCESS);
	check_stays();
	CHECK_INT(cuMemUnmap(RANGE, 8 * MIB), CUDA_SUCCESS);
	check_stays();
	CHECK_INT(cuMemRelease(multicast), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(memory_bound_by_address_stays_on_the_device)
{
	run_evictable(32 * MIB, bound_address_stays_body);
}

static void beyond_body(void)
{
	const CUmemAccessDesc access[] = {
		{.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{.location = {CU_MEM_LOCATION_TYPE_HOST, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ}};

	const CUmemAllocationProp tiles = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
					   .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
	CUmemGenericAllocationHandle fixed;

	start_evictable();
	CHECK_INT(cuMemCreate(&fixed, 8 * MIB, &tiles, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemMap(RANGE, 8 * MIB, 0, memory, 0), CUDA_SUCCESS);
	CHECK_INT(cuMulticastBindMem(multicast, 0, memory, 0, 8 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMulticastBindAddr(multicast, 0, RANGE, 8 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemSetAccess(RANGE, 8 * MIB, access, 1), CUDA_SUCCESS);
	CHECK_INT(last_access(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 2);
	CHECK_INT(cuMemSetAccess(RANGE, 8 * MIB, &access[1], 1), CUDA_ERROR_OUT_OF_MEMORY);
	// After the refusal, the interposer has taken the other device's access away again.
	CHECK_INT(last_access(), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CHECK_INT(slot->bytes, 8 * MIB);
	CHECK_INT(slot->charged, 8 * MIB);
}

TEST(bindings_beyond_the_fixed_part_are_refused)
{
	run_evictable(12 * MIB, beyond_body);
}

static void other_access_body(void)
{
	const CUmemAccessDesc none = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
	const CUmemAccessDesc other = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1},
				       .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};

	start_evictable();
	CHECK_INT(cuMemMap(RANGE, 8 * MIB, 0, memory, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemSetAccess(RANGE, 8 * MIB, &none, 1), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 8 * MIB);
	fail_entry("cuMemSetAccess");
	CHECK_INT(cuMemSetAccess(RANGE, 8 * MIB, &other, 1), CUDA_ERROR_UNKNOWN);
	fail_entry(NULL);
	CHECK_INT(slot->bytes, 8 * MIB);
	CHECK_INT(cuMemSetAccess(RANGE, 8 * MIB, &other, 1), CUDA_SUCCESS);
	check_stays();
	CHECK_INT(cuMemUnmap(RANGE, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(memory), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(memory_of_another_location_stays_on_the_device)
{
	run_evictable(32 * MIB, other_access_body);
}

static int has_rdma(void)
{
	int value = -1;

	CHECK_INT(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
		  CUDA_SUCCESS);
	return value;
}

static void rdma_body(void)
{
	start();
	CHECK_INT(has_rdma(), 1);
}

static void no_rdma_body(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
					  .allocFlags.gpuDirectRDMACapable = 1};
	CUmemGenericAllocationHandle handle;

	start_evictable();
	CHECK_INT(has_rdma(), 0);
	// Memory that is created for RDMA must stay on the device. So only the 8 MiB of `memory` can leave.
	CHECK_INT(cuMemCreate(&handle, 8 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 8 * MIB);
}

TEST(evictable_vgpus_have_no_rdma)
{
	TENANT(64 * MIB, 0, rdma_body);
	run_evictable(32 * MIB, no_rdma_body);
}
