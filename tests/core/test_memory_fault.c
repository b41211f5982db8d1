// Tests failures of every driver call that creates memory objects, and drivers without some features.
#include "code_test.h"
#include "core_fault.h"

#include <unistd.h>

static struct vg_device *device;
static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_memory_resource *resource, *made_resource;
static struct vg_buffer *buffer, *made_buffer;
static struct vg_physical_memory *memory, *made_memory;
static struct vg_address_range *range, *wall, *made_range;
static struct vg_mapping *made_mapping;
static struct vg_buffer_descriptor exported;
static int descriptor = -1;

static void clean(void)
{
	vg_mapping_destroy(made_mapping);
	vg_buffer_destroy(made_buffer);
	vg_buffer_destroy(buffer);
	vg_physical_memory_destroy(made_memory);
	vg_physical_memory_destroy(memory);
	vg_address_range_destroy(made_range);
	vg_address_range_destroy(range);
	vg_address_range_destroy(wall);
	vg_memory_resource_destroy(made_resource);
	vg_memory_resource_destroy(resource);
	if (stream)
		OK(vg_stream_sync(stream));
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	if (descriptor >= 0)
		close(descriptor);
}

static enum vg_status open_stream(void)
{
	TRY(vg_device_get(0, &device));
	TRY(vg_context_primary(device, &context));
	return vg_stream_create(context, NULL, &stream);
}

// ---- pools ---------------------------------------------------------------------------------------

static enum vg_status current_pool(void)
{
	return vg_device_pool_current(device, &made_resource);
}

static enum vg_status new_pool(void)
{
	return vg_device_pool_create(device, NULL, &made_resource);
}

static enum vg_status current_pinned(void)
{
	return vg_pinned_pool_current(device, &made_resource);
}

static enum vg_status new_pinned(void)
{
	return vg_pinned_pool_create(device, NULL, &made_resource);
}

static enum vg_status new_managed(void)
{
	return vg_managed_pool_create(device, NULL, &made_resource);
}

TEST(failures_of_pools)
{
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, current_pool, clean}), "cuDeviceGetMemPool",
			 "cuMemPoolGetAttribute", "cuMemPoolSetAttribute");
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_pool, clean}), "cuMemPoolCreate");
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, current_pinned, clean}), "cuMemGetMemPool",
			 "cuMemPoolGetAccess", "cuMemPoolSetAccess");
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_pinned, clean}), "cuMemPoolCreate",
			 "cuMemPoolGetAccess", "cuMemPoolSetAccess");
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_managed, clean}), "cuMemPoolCreate");
}

static enum vg_status open_pool(void)
{
	TRY(open_stream());
	return vg_device_pool_create(device, NULL, &resource);
}

static enum vg_status new_buffer(void)
{
	return vg_buffer_create(resource, 1 << 20, stream, &made_buffer);
}

static enum vg_status open_buffer(void)
{
	TRY(open_pool());
	return vg_buffer_create(resource, 1 << 20, stream, &buffer);
}

static enum vg_status duplicate(void)
{
	return vg_buffer_duplicate(buffer, stream, &made_buffer);
}

TEST(failures_of_buffers)
{
	FAULT_EVERY_CALL((&(struct fault_subject){open_pool, new_buffer, clean}), "cuStreamIsCapturing",
			 "cuMemAllocFromPoolAsync");
	FAULT_EVERY_CALL((&(struct fault_subject){open_buffer, duplicate, clean}), "cuStreamIsCapturing",
			 "cuMemAllocFromPoolAsync", "cuMemcpyAsync");
}

// ---- between processes (the driver imports its own exports too) -------------------------------------

static enum vg_status export_buffer(void)
{
	TRY(open_stream());
	TRY(vg_device_pool_create(
		device, &(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .shareable = 1},
		&resource));
	TRY(vg_buffer_create(resource, 1 << 20, stream, &buffer));
	TRY(vg_memory_pool_export(resource, &descriptor));
	return vg_buffer_export(buffer, &exported);
}

static enum vg_status import_pool(void)
{
	return vg_device_pool_import(device, descriptor, &made_resource);
}

static enum vg_status prepare_import(void)
{
	TRY(export_buffer());
	return import_pool();
}

static enum vg_status import_buffer(void)
{
	return vg_buffer_import(made_resource, &exported, sizeof exported, stream, &made_buffer);
}

static enum vg_status export_pinned(void)
{
	TRY(open_stream());
	TRY(vg_pinned_pool_create(
		device, &(struct vg_pinned_pool_options){.size = sizeof(struct vg_pinned_pool_options), .shareable = 1},
		&resource));
	return vg_memory_pool_export(resource, &descriptor);
}

static enum vg_status import_pinned(void)
{
	return vg_pinned_pool_import(device, descriptor, &made_resource);
}

TEST(failures_of_imports)
{
	FAULT_EVERY_CALL((&(struct fault_subject){export_buffer, import_pool, clean}),
			 "cuMemPoolImportFromShareableHandle");
	FAULT_EVERY_CALL((&(struct fault_subject){export_pinned, import_pinned, clean}),
			 "cuMemPoolImportFromShareableHandle", "cuMemPoolGetAccess", "cuMemPoolSetAccess");
	FAULT_EVERY_CALL((&(struct fault_subject){prepare_import, import_buffer, clean}), "cuStreamIsCapturing",
			 "cuMemPoolImportPointer", "cuPointerGetAttribute");
}

// ---- virtual memory ----------------------------------------------------------------------------------

static enum vg_status new_virtual_resource(void)
{
	return vg_virtual_memory_resource_create(device, NULL, &made_resource);
}

static enum vg_status open_virtual(void)
{
	TRY(open_stream());
	return vg_virtual_memory_resource_create(device, NULL, &resource);
}

static enum vg_status open_virtual_buffer(void)
{
	TRY(open_virtual());
	return vg_buffer_create(resource, 4 << 20, stream, &buffer);
}

static enum vg_status grow(void)
{
	return vg_buffer_grow(buffer, 8 << 20, NULL, &made_buffer);
}

// Opens a buffer whose following addresses are in use.
static enum vg_status open_blocked_buffer(void)
{
	TRY(open_virtual_buffer());
	return vg_address_range_create(2 << 20, 0, vg_buffer_address(buffer) + vg_buffer_size(buffer), &wall);
}

static enum vg_status open_grown_buffer(void)
{
	struct vg_buffer *small;

	TRY(open_virtual());
	TRY(vg_buffer_create(resource, 2 << 20, stream, &small));
	enum vg_status status = vg_buffer_grow(small, 4 << 20, NULL, &buffer);
	vg_buffer_destroy(small);
	TRY(status);
	return vg_address_range_create(2 << 20, 0, vg_buffer_address(buffer) + vg_buffer_size(buffer), &wall);
}

static enum vg_status grow_with_other_access(void)
{
	return vg_buffer_grow(buffer, 8 << 20,
			      &(struct vg_virtual_memory_options){.size = sizeof(struct vg_virtual_memory_options),
								  .self_access = VG_ACCESS_READ},
			      &made_buffer);
}

TEST(failures_of_virtual_memory)
{
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_virtual_resource, clean}),
			 "cuMemGetAllocationGranularity");
	FAULT_EVERY_CALL((&(struct fault_subject){open_virtual, new_buffer, clean}), "cuStreamIsCapturing",
			 "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess");
}

TEST(failures_of_growth)
{
	const struct fault_subject cases[] = {{open_virtual_buffer, grow, clean},
					      {open_blocked_buffer, grow, clean},
					      {open_grown_buffer, grow, clean}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		FAULT_EVERY_CALL(&cases[i], "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess");
	FAULT_EVERY_CALL((&(struct fault_subject){open_virtual_buffer, grow_with_other_access, clean}),
			 "cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap",
			 "cuMemSetAccess");
}

static enum vg_status open_memory(void)
{
	TRY(open_stream());
	TRY(vg_physical_memory_create(device, 2 << 20, NULL, &memory));
	TRY(vg_address_range_create(2 << 20, 0, 0, &range));
	return vg_physical_memory_export(memory, &descriptor);
}

static enum vg_status new_memory(void)
{
	return vg_physical_memory_create(device, 2 << 20, NULL, &made_memory);
}

static enum vg_status import_memory(void)
{
	return vg_physical_memory_import(device, descriptor, 2 << 20, &made_memory);
}

static enum vg_status new_range(void)
{
	return vg_address_range_create(2 << 20, 0, 0, &made_range);
}

static enum vg_status new_mapping(void)
{
	return vg_mapping_create(range, 0, memory, &made_mapping);
}

TEST(failures_of_mappings)
{
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_memory, clean}), "cuMemGetAllocationGranularity",
			 "cuMemCreate");
	FAULT_EVERY_CALL((&(struct fault_subject){open_memory, import_memory, clean}),
			 "cuMemImportFromShareableHandle");
	FAULT_EVERY_CALL((&(struct fault_subject){open_stream, new_range, clean}), "cuMemAddressReserve");
	FAULT_EVERY_CALL((&(struct fault_subject){open_memory, new_mapping, clean}), "cuMemMap");
}

// ---- missing features of a device -----------------------------------------------------------------------

// Runs the function in a child with this environment variable.
static void run_with(void (*run)(void), const char *variable, const char *value)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("the simulated driver alone takes %s", variable);
	pid_t child = fork();
	if (child == 0) {
		setenv(variable, value, 1);
		run();
		exit(0);
	}
	CHECK_CHILD(child);
}

static void without_properties(void)
{
	OK(open_stream());
	REFUSED(vg_device_pool_create(device, NULL, &made_resource), VG_UNSUPPORTED,
		"a device pool: device 0 has memory_pools_supported 0; use the synchronous resource");
	REFUSED(vg_device_pool_current(device, &made_resource), VG_UNSUPPORTED, "memory_pools_supported 0");
	REFUSED(vg_pinned_pool_current(device, &made_resource), VG_UNSUPPORTED,
		"host_memory_pools_supported 0; use the legacy pinned resource");
	REFUSED(vg_pinned_pool_create(device,
				      &(struct vg_pinned_pool_options){.size = sizeof(struct vg_pinned_pool_options),
								       .location = {VG_LOCATION_HOST_NUMA, 0}},
				      &made_resource),
		VG_UNSUPPORTED, "host_numa_memory_pools_supported 0");
	REFUSED(vg_managed_pool_create(device, NULL, &made_resource), VG_UNSUPPORTED, "a managed pool: device 0 has");
	REFUSED(vg_managed_pool_create(device,
				       &(struct vg_managed_pool_options){
					       .size = sizeof(struct vg_managed_pool_options),
					       .preferred_location = {VG_LOCATION_HOST_NUMA, VG_NODE_OF_DEVICE}},
				       &made_resource),
		VG_UNSUPPORTED, "cannot determine the host NUMA node of device 0");
	REFUSED(vg_graph_memory_resource(device, &made_resource), VG_UNSUPPORTED, "graphs cannot allocate on it");
	REFUSED(vg_virtual_memory_resource_create(device, NULL, &made_resource), VG_UNSUPPORTED,
		"the CUDA virtual memory API is not supported on device 0");
	REFUSED(vg_physical_memory_create(device, 1, NULL, &made_memory), VG_UNSUPPORTED,
		"the CUDA virtual memory API");
	CHECK(!made_resource && !made_memory);
	// On this driver, the library can allocate device memory by cuMemAlloc only.
	OK(vg_device_memory_resource(device, &resource));
	CHECK_STR(vg_memory_resource_name(resource), "synchronous resource");
	OK(vg_device_allocate(device, 1 << 20, stream, &buffer));
	OK(vg_buffer_fill_byte(buffer, 1, stream));
	OK(vg_device_set_memory_resource(device, NULL));
	clean();
	CHECK_INT(fault_primary_is_active(), 0);
}

TEST(device_without_pools_and_virtual_memory)
{
	// The first two queries are for the compute capability, and succeed. All later ones fail, so each property is
	// unknown and counts as 0.
	run_with(without_properties, "VIRGATE_SIM_FAULT", "cuDeviceGetAttribute:3+=CUDA_ERROR_INVALID_VALUE");
}

static void old_driver(void)
{
	OK(open_stream());
	REFUSED(vg_pinned_pool_create(device, NULL, &made_resource), VG_UNSUPPORTED,
		"pinned pool: unsupported: needs driver 13.0, have 12.8");
	REFUSED(vg_pinned_pool_current(device, &made_resource), VG_UNSUPPORTED, "needs driver 13.0");
	REFUSED(vg_managed_pool_current(device, &made_resource), VG_UNSUPPORTED,
		"managed pool: unsupported: needs driver 13.0, have 12.8");
	REFUSED(vg_virtual_memory_resource_create(
			device,
			&(struct vg_virtual_memory_options){.size = sizeof(struct vg_virtual_memory_options),
							    .allocation_type = VG_ALLOCATION_MANAGED},
			&made_resource),
		VG_UNSUPPORTED, "virtual memory of type MANAGED: unsupported: needs driver 13.0");
	OK(vg_device_pool_current(device, &resource));
	OK(vg_buffer_create(resource, 64, stream, &buffer));
	clean();
}

TEST(driver_without_host_pools)
{
	run_with(old_driver, "VIRGATE_SIM", "driver=12080");
}

// Makes an import fail after the driver has mapped the buffer. The library must unmap it, so that it can be imported
// again.
static void import_twice(void)
{
	OK(prepare_import());
	REFUSED(import_buffer(), VG_DRIVER, "cuPointerGetAttribute");
	OK(vg_stream_sync(stream));
	OK(import_buffer());
	clean();
}

TEST(a_failed_import_can_be_repeated)
{
	run_with(import_twice, "VIRGATE_SIM_FAULT", "cuPointerGetAttribute:1=CUDA_ERROR_OPERATING_SYSTEM");
}

// Makes the driver fail to free a mapping. A later import must find the mapping again, or the end of the pool must free
// it.
static void free_twice(void)
{
	size_t before;

	OK(prepare_import());
	OK(vg_device_memory_info(device, &before, NULL));
	for (int i = 0; i < 2; i++) {
		OK(import_buffer());
		vg_address address = vg_buffer_address(made_buffer);
		REFUSED(vg_buffer_close(made_buffer, NULL), VG_DRIVER, getenv("REFUSED_CALL"));
		vg_buffer_destroy(made_buffer);
		if (i)
			break; // the end of the pool frees the mapping
		OK(import_buffer());
		CHECK(vg_buffer_address(made_buffer) == address);
		OK(vg_buffer_close(made_buffer, NULL));
		vg_buffer_destroy(made_buffer);
	}
	made_buffer = NULL;
	vg_memory_resource_destroy(made_resource);
	made_resource = NULL;
	OK(import_pool());
	OK(import_buffer()); // the buffer is not mapped any more
	clean();
	CHECK_INT(fault_primary_is_active(), 0);
}

TEST(an_import_that_cannot_be_freed_is_kept)
{
	setenv("REFUSED_CALL", "cuMemFreeAsync: CUDA_ERROR_OPERATING_SYSTEM", 1);
	run_with(free_twice, "VIRGATE_SIM_FAULT",
		 "cuMemFreeAsync:1=CUDA_ERROR_OPERATING_SYSTEM;cuMemFreeAsync:3=CUDA_ERROR_OPERATING_SYSTEM");
}

// Two imports use one mapping; recording the event for the first one fails.
static void close_without_event(void)
{
	struct vg_buffer *second;

	OK(prepare_import());
	OK(import_buffer());
	OK(vg_buffer_import(made_resource, &exported, sizeof exported, stream, &second));
	CHECK(vg_buffer_address(second) == vg_buffer_address(made_buffer));
	REFUSED(vg_buffer_close(second, NULL), VG_DRIVER, "cuEventRecord: CUDA_ERROR_OPERATING_SYSTEM");
	vg_buffer_destroy(second);
	OK(vg_buffer_close(made_buffer, NULL)); // the last import frees the mapping although the event was not recorded
	OK(vg_stream_sync(stream));
	OK(vg_buffer_import(made_resource, &exported, sizeof exported, stream, &second));
	vg_buffer_destroy(second);
	clean();
}

TEST(an_import_is_freed_last_without_recorded_events)
{
	run_with(close_without_event, "VIRGATE_SIM_FAULT", "cuEventRecord:1=CUDA_ERROR_OPERATING_SYSTEM");
}

static int warnings;

static void count_warnings(void *user, enum vg_log_level level, const char *text)
{
	warnings += level == VG_LOG_WARNING && strstr(text, "cannot use managed memory at the same time");
}

static void managed_without_concurrency(void)
{
	vg_log_set(count_warnings, NULL);
	OK(open_stream());
	OK(vg_managed_pool_create(device, NULL, &resource));
	OK(vg_managed_pool_current(device, &made_resource));
	CHECK_INT(warnings, 1);
	clean();
}

TEST(non_concurrent_managed_memory_is_logged_once)
{
	// The library queries attributes of the device. The third query is whether it supports pools. The fourth is
	// whether host and device can use managed memory at the same time, and fails.
	run_with(managed_without_concurrency, "VIRGATE_SIM_FAULT", "cuDeviceGetAttribute:4=CUDA_ERROR_INVALID_VALUE");
}

// Makes the destruction of a pool fail. Some drivers cannot destroy a pool with peers, so the library removes the peers
// first.
static void fail_destroy_of_pool(void)
{
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
	struct vg_device *peer;
	int access = -1;

	OK(open_stream());
	OK(vg_device_get(1, &peer));
	OK(vg_device_pool_create(device, NULL, &resource));
	OK(vg_memory_pool_set_peers(resource, &peer, 1));
	struct CUmemPoolHandle_st *handle = vg_memory_pool_handle(resource);
	DRIVER(cuMemPoolGetAccess, (int *, struct CUmemPoolHandle_st *, CUmemLocation *), &access, handle, &place);
	CHECK_INT(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	REFUSED(vg_memory_resource_close(resource), VG_DRIVER, "cuMemPoolDestroy: CUDA_ERROR_OPERATING_SYSTEM");
	DRIVER(cuMemPoolGetAccess, (int *, struct CUmemPoolHandle_st *, CUmemLocation *), &access, handle, &place);
	CHECK_INT(access, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	clean();
}

static void fail_destroy_of_two_devices(void)
{
	setenv("VIRGATE_SIM", "devices=2", 1);
	fail_destroy_of_pool();
}

TEST(peer_access_is_removed_before_a_pool_is_destroyed)
{
	run_with(fail_destroy_of_two_devices, "VIRGATE_SIM_FAULT", "cuMemPoolDestroy:1=CUDA_ERROR_OPERATING_SYSTEM");
}

static void check_no_shared_pools(void)
{
	OK(open_stream());
	REFUSED(vg_device_pool_create(
			device,
			&(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .shareable = 1},
			&made_resource),
		VG_UNSUPPORTED, "device 0 cannot share pools between processes");
	clean();
}

TEST(a_device_without_exportable_pools)
{
	// The first two queries are for the compute capability. The third, for the types of handles, fails.
	run_with(check_no_shared_pools, "VIRGATE_SIM_FAULT", "cuDeviceGetAttribute:3=CUDA_ERROR_INVALID_VALUE");
}

static void refuse_unreachable_peers(void)
{
	struct vg_device *one;
	size_t count;

	OK(open_stream());
	OK(vg_device_get(1, &one));
	OK(vg_device_pool_create(device, NULL, &resource));
	REFUSED(vg_memory_pool_add_peers(resource, (struct vg_device *[]){device, one}, 2), VG_INVALID,
		"device 1 cannot access peer device 0, which the pool is of: nothing was changed");
	REFUSED(vg_memory_pool_set_peers(resource, &one, 1), VG_INVALID, "cannot access peer");
	OK(vg_memory_pool_remove_peers(resource, &one, 1));
	// The library ignores the pool's own device in a list of peers.
	OK(vg_memory_pool_set_peers(resource, &device, 1));
	OK(vg_memory_pool_peers(resource, NULL, 0, &count));
	CHECK_INT(count, 0);
	REFUSED(vg_virtual_memory_resource_create(
			device,
			&(struct vg_virtual_memory_options){
				.size = sizeof(struct vg_virtual_memory_options), .peers = &one, .peer_count = 1},
			&made_resource),
		VG_INVALID, "device 1 cannot access peer device 0");
	// All devices can access host memory, so the pool accepts device 1 as a peer.
	OK(vg_pinned_pool_create(device, NULL, &made_resource));
	OK(vg_memory_pool_add_peers(made_resource, &one, 1));
	clean();
}

TEST(devices_without_peer_access)
{
	run_with(refuse_unreachable_peers, "VIRGATE_SIM", "devices=2,peers=0");
}

// Checks that both peers are added by one driver call, and that no call is made if nothing changes.
static void check_peer_calls(void)
{
	struct vg_device *peers[3];

	OK(open_stream());
	for (int i = 0; i < 3; i++)
		OK(vg_device_get(i, &peers[i]));
	OK(vg_device_pool_create(device, NULL, &resource));
	OK(vg_memory_pool_set_peers(resource, peers, 3)); // makes the first driver call, which succeeds
	OK(vg_memory_pool_set_peers(resource, peers, 3)); // nothing changes: no call
	OK(vg_memory_pool_add_peers(resource, peers + 1, 1));
	REFUSED(vg_memory_pool_set_peers(resource, NULL, 0), VG_DRIVER, "cuMemPoolSetAccess");
	clean();
}

TEST(peer_changes_need_one_driver_call)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("the simulated driver alone counts calls");
	char *directory = getenv("VIRGATE_SIM_DIR"), other[4096];
	CHECK(directory != NULL);
	snprintf(other, sizeof other, "%s/three", directory);
	setenv("VIRGATE_SIM", "devices=3", 1);
	setenv("VIRGATE_SIM_DIR", other, 1);
	run_with(check_peer_calls, "VIRGATE_SIM_FAULT", "cuMemPoolSetAccess:2-3=CUDA_ERROR_OPERATING_SYSTEM");
}
