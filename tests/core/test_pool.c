// Tests pools of devices, of pinned and of managed memory, their attributes and their peers, on four simulated devices.
#include "memory_test.h"

__attribute__((constructor)) static void four_devices(void)
{
	if (getenv("VIRGATE_SIM"))
		setenv("VIRGATE_SIM", "devices=4", 1);
}

static struct vg_device *device_of(int ordinal)
{
	struct vg_device *device;

	OK(vg_device_get(ordinal, &device));
	return device;
}

static void need_devices(int wanted)
{
	int count;

	OK(vg_device_count(&count));
	if (count < wanted)
		SKIP("it takes %d devices, and there are %d", wanted, count);
}

static struct vg_memory_pool_attributes attributes_of(struct vg_memory_resource *pool)
{
	struct vg_memory_pool_attributes attributes;

	OK(vg_memory_pool_attributes(pool, &attributes));
	return attributes;
}

TEST(current_pool_keeps_memory)
{
	struct vg_device *device = device_of(0);
	struct vg_memory_resource *pool, *again;
	struct CUmemPoolHandle_st *handle;
	uint64_t threshold = 0, some = 64 << 20;

	struct vg_context *context = first_context();
	DRIVER(cuDeviceGetMemPool, (struct CUmemPoolHandle_st **, int), &handle, 0);
	DRIVER(cuMemPoolSetAttribute, (struct CUmemPoolHandle_st *, int, void *), handle, 4, &threshold);
	OK(vg_device_pool_current(device, &pool));
	CHECK(vg_memory_pool_handle(pool) == handle);
	CHECK(!vg_memory_pool_is_owned(pool) && !vg_memory_pool_is_shareable(pool) && !vg_memory_pool_is_mapped(pool));
	CHECK(attributes_of(pool).release_threshold == UINT64_MAX);
	vg_memory_resource_destroy(pool);
	// The library must not change a threshold that the program has set.
	DRIVER(cuMemPoolSetAttribute, (struct CUmemPoolHandle_st *, int, void *), handle, 4, &some);
	OK(vg_device_pool_current(device, &again));
	CHECK_INT(attributes_of(again).release_threshold, some);
	CHECK_STR(vg_memory_resource_name(again), "device pool");
	vg_memory_resource_destroy(again);
	vg_context_destroy(context);
}

TEST(new_pool_has_attributes_and_a_location)
{
	struct bench b = open_bench();
	struct vg_memory_location location;
	struct vg_buffer *buffer;

	CHECK(vg_memory_pool_is_owned(b.pool));
	OK(vg_memory_pool_location(b.pool, &location));
	CHECK(location.type == VG_LOCATION_DEVICE && location.id == 0);
	struct vg_memory_pool_attributes a = attributes_of(b.pool);
	CHECK_INT(a.release_threshold, 0);
	CHECK_INT(a.reuse_follow_event_dependencies, 1);
	CHECK_INT(a.reuse_allow_opportunistic, 1);
	CHECK_INT(a.reuse_allow_internal_dependencies, 1);
	CHECK_INT(a.used_mem_current, 0);
	OK(vg_buffer_create(b.pool, 1 << 20, b.stream, &buffer));
	a = attributes_of(b.pool);
	CHECK_INT(a.used_mem_current, 1 << 20);
	CHECK_INT(a.used_mem_high, 1 << 20);
	CHECK(a.reserved_mem_current >= 1 << 20 && a.reserved_mem_high >= a.reserved_mem_current);
	// The buffer keeps the pool.
	OK(vg_memory_resource_close(b.pool));
	REFUSED(vg_memory_pool_attributes(b.pool, &a), VG_CLOSED, "the device pool has been closed");
	CHECK(!vg_memory_pool_handle(b.pool));
	REFUSED(vg_buffer_create(b.pool, 64, b.stream, &buffer), VG_CLOSED, "the device pool has been closed");
	OK(vg_memory_resource_close(b.pool));
	OK(vg_buffer_fill_byte(buffer, 1, b.stream));
	vg_buffer_destroy(buffer);
	close_bench(&b);
}

TEST(pool_refusals)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource = NULL, *plain;
	struct vg_memory_pool_attributes a;
	struct vg_buffer *buffer = NULL;

	REFUSED(vg_device_pool_create(NULL, NULL, &resource), VG_INVALID, "device is NULL");
	REFUSED(vg_device_pool_create(b.device, NULL, NULL), VG_INVALID, "ret_pool is NULL");
	REFUSED(vg_device_pool_current(NULL, &resource), VG_INVALID, "device is NULL");
	REFUSED(vg_buffer_create(b.pool, 64, NULL, &buffer), VG_INVALID, "stream is NULL: a device pool allocates");
	REFUSED(vg_buffer_create(NULL, 64, b.stream, &buffer), VG_INVALID, "resource is NULL");
	REFUSED(vg_buffer_create(b.pool, 64, b.stream, NULL), VG_INVALID, "ret_buffer is NULL");
	REFUSED(vg_buffer_create(b.pool, (size_t)1 << 50, b.stream, &buffer), VG_DRIVER, "asked for 1.0 PiB, ");
	CHECK_CONTAINS(vg_last_error()->text, "CUDA_ERROR_OUT_OF_MEMORY");
	CHECK_CONTAINS(vg_last_error()->text, " are free");
	CHECK(!buffer && !resource);
	OK(vg_synchronous_resource_create(b.context, &plain));
	REFUSED(vg_memory_pool_attributes(plain, &a), VG_INVALID, "a synchronous resource is not a memory pool");
	CHECK(!vg_memory_pool_handle(plain) && !vg_memory_pool_is_owned(plain) && !vg_memory_pool_handle(NULL));
	vg_memory_resource_destroy(plain);
	REFUSED(vg_memory_resource_close(NULL), VG_INVALID, "resource is NULL");
	vg_memory_resource_destroy(NULL);
	close_bench(&b);
}

TEST(pool_of_limited_size)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool;
	struct vg_buffer *buffer, *more = NULL;

	OK(vg_device_pool_create(
		b.device,
		&(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .max_size = 32 << 20},
		&pool));
	OK(vg_buffer_create(pool, 32 << 20, b.stream, &buffer));
	REFUSED(vg_buffer_create(pool, 32 << 20, b.stream, &more), VG_DRIVER, "CUDA_ERROR_OUT_OF_MEMORY");
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	close_bench(&b);
}

TEST(pool_works_with_streams_of_other_devices)
{
	struct bench b = open_bench();
	struct vg_context *other;
	struct vg_stream *stream;
	struct vg_memory_properties p;
	struct vg_buffer *buffer;

	need_devices(2);
	OK(vg_context_primary(device_of(1), &other));
	OK(vg_stream_create(other, NULL, &stream));
	OK(vg_buffer_create(b.pool, 1 << 20, b.stream, &buffer));
	OK(vg_buffer_properties(buffer, &p));
	CHECK_INT(p.device, 0);
	OK(vg_stream_wait_stream(stream, b.stream));
	OK(vg_buffer_close(buffer, stream));
	vg_buffer_destroy(buffer);
	OK(vg_stream_sync(stream));
	CHECK_INT(attributes_of(b.pool).used_mem_current, 0);
	vg_stream_destroy(stream);
	vg_context_destroy(other);
	close_bench(&b);
}

// ---- peers ---------------------------------------------------------------------------------------

static void check_peers(struct vg_memory_resource *pool, const char *expected)
{
	struct vg_device *peers[8];
	char text[16] = "";
	size_t count;

	OK(vg_memory_pool_peers(pool, peers, 8, &count));
	for (size_t i = 0; i < count; i++)
		text[i] = (char)('0' + vg_device_ordinal(peers[i]));
	CHECK_STR(text, expected);
}

TEST(peers_are_read_from_the_driver_in_order)
{
	need_devices(4);
	struct bench b = open_bench();
	struct vg_device *list[] = {device_of(3), device_of(0), device_of(1), device_of(1)}, *two = device_of(2),
			 *got[1];
	size_t count;

	check_peers(b.pool, "");
	// The list has the pool's own device, which is ignored, and device 1 twice, which counts once.
	OK(vg_memory_pool_set_peers(b.pool, list, 4));
	check_peers(b.pool, "13");
	OK(vg_memory_pool_add_peers(b.pool, &two, 1));
	check_peers(b.pool, "123");
	OK(vg_memory_pool_remove_peers(b.pool, list, 2));
	check_peers(b.pool, "12");
	got[0] = NULL;
	count = 77;
	REFUSED(vg_memory_pool_peers(b.pool, got, 1, &count), VG_LIMIT,
		"there are 2 peers, and room for 1: ask for the count first");
	CHECK(count == 77 && !got[0]);
	OK(vg_memory_pool_peers(b.pool, NULL, 0, &count));
	CHECK_INT(count, 2);
	OK(vg_memory_pool_set_peers(b.pool, NULL, 0));
	check_peers(b.pool, "");
	REFUSED(vg_memory_pool_set_peers(b.pool, NULL, 1), VG_INVALID, "peers is NULL, and count 1");
	REFUSED(vg_memory_pool_add_peers(b.pool, (struct vg_device *[]){two, NULL}, 2), VG_INVALID,
		"one of the peers is NULL");
	REFUSED(vg_memory_pool_remove_peers(b.pool, (struct vg_device *[]){NULL}, 1), VG_INVALID,
		"one of the peers is NULL");
	check_peers(b.pool, "");
	REFUSED(vg_memory_pool_peers(b.pool, NULL, 1, &count), VG_INVALID, "ret_peers is NULL");
	close_bench(&b);
}

TEST(objects_of_the_current_pool_have_the_same_peers)
{
	need_devices(2);
	struct vg_device *device = device_of(0), *one = device_of(1);
	struct vg_memory_resource *first, *second;

	OK(vg_device_pool_current(device, &first));
	OK(vg_device_pool_current(device, &second));
	OK(vg_memory_pool_add_peers(first, &one, 1));
	check_peers(second, "1");
	vg_memory_resource_destroy(first); // the pool keeps the access, although the object that set it is destroyed
	check_peers(second, "1");
	OK(vg_memory_pool_set_peers(second, NULL, 0));
	vg_memory_resource_destroy(second);
}

TEST(peers_access_the_memory)
{
	need_devices(2);
	struct bench b = open_bench();
	struct vg_device *one = device_of(1);
	struct vg_context *other;
	struct vg_stream *stream;
	struct vg_buffer *buffer;
	unsigned word = 0;

	OK(vg_memory_pool_add_peers(b.pool, &one, 1));
	OK(vg_buffer_create(b.pool, 4, b.stream, &buffer));
	OK(vg_stream_sync(b.stream));
	OK(vg_context_primary(one, &other));
	OK(vg_stream_create(other, NULL, &stream));
	OK(vg_buffer_fill(buffer, &(unsigned){77}, 4, stream));
	OK(vg_buffer_read(buffer, 0, &word, 4, stream));
	OK(vg_stream_sync(stream));
	CHECK_INT(word, 77);
	vg_buffer_destroy(buffer);
	vg_stream_destroy(stream);
	vg_context_destroy(other);
	close_bench(&b);
}

TEST(virtual_memory_for_peers)
{
	need_devices(4);
	struct bench b = open_bench();
	struct vg_device *peers[] = {device_of(1), device_of(0), device_of(3)};
	static const struct {
		enum vg_access self, peer;
		int flags[4]; // access: 0 none, 1 read, 3 read and write
	} cases[] = {{VG_ACCESS_READ_WRITE, VG_ACCESS_READ_WRITE, {3, 3, 0, 3}},
		     {VG_ACCESS_READ_WRITE, VG_ACCESS_READ, {3, 1, 0, 1}},
		     {VG_ACCESS_READ, VG_ACCESS_READ_WRITE, {1, 3, 0, 3}},
		     {VG_ACCESS_READ, VG_ACCESS_NONE, {1, 0, 0, 0}},
		     {VG_ACCESS_NONE, VG_ACCESS_READ_WRITE, {0, 3, 0, 3}}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct vg_virtual_memory_options options = {.size = sizeof options,
							    .peers = peers,
							    .peer_count = 3,
							    .self_access = cases[i].self,
							    .peer_access = cases[i].peer};
		struct vg_memory_resource *resource;
		struct vg_buffer *buffer, *grown;
		OK(vg_virtual_memory_resource_create(b.device, &options, &resource));
		OK(vg_buffer_create(resource, 1, NULL, &buffer));
		OK(vg_buffer_grow(buffer, vg_buffer_size(buffer) + 1, NULL, &grown));
		for (int device = 0; device < 4; device++) {
			CHECK_INT(access_of(vg_buffer_address(buffer), device), cases[i].flags[device]);
			CHECK_INT(access_of(vg_buffer_address(grown) + vg_buffer_size(buffer), device),
				  cases[i].flags[device]);
		}
		vg_buffer_destroy(buffer);
		vg_buffer_destroy(grown);
		vg_memory_resource_destroy(resource);
	}
	close_bench(&b);
}

// ---- host and managed memory -----------------------------------------------------------------------

// Checks that the device can write a buffer of a pinned or managed pool, and that the host can read it.
static void use_from_both_sides(struct vg_memory_resource *pool, struct vg_stream *stream, int managed)
{
	struct vg_memory_properties p;
	struct vg_buffer *buffer;

	OK(vg_memory_resource_properties(pool, &p));
	CHECK(p.device == -1 && p.device_accessible && p.host_accessible && p.managed == managed);
	OK(vg_buffer_create(pool, 4096, stream, &buffer));
	OK(vg_buffer_fill_byte(buffer, 9, stream));
	OK(vg_stream_sync(stream));
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)vg_buffer_address(buffer);
	CHECK(bytes[0] == 9 && bytes[4095] == 9);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
}

static void check_location(struct vg_memory_resource *pool, enum vg_location_type type, int id)
{
	struct vg_memory_location location;

	OK(vg_memory_pool_location(pool, &location));
	CHECK_INT(location.type, type);
	CHECK_INT(location.id, id);
}

#define PINNED(...)                                                        \
	&(struct vg_pinned_pool_options)                                   \
	{                                                                  \
		.size = sizeof(struct vg_pinned_pool_options), __VA_ARGS__ \
	}
#define MANAGED(type_, id_)                                                                          \
	&(struct vg_managed_pool_options)                                                            \
	{                                                                                            \
		.size = sizeof(struct vg_managed_pool_options), .preferred_location = { type_, id_ } \
	}

static void require_property(struct vg_device *device, enum vg_device_property property)
{
	int value;

	OK(vg_device_property(device, property, &value));
	if (!value)
		SKIP("the device has %s 0", vg_device_property_name(property));
}

TEST(pinned_pools)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool = NULL;

	require_property(b.device, VG_DEVICE_HOST_MEMORY_POOLS_SUPPORTED);
	OK(vg_pinned_pool_current(b.device, &pool));
	CHECK(!vg_memory_pool_is_owned(pool));
	check_location(pool, VG_LOCATION_HOST, 0);
	use_from_both_sides(pool, b.stream, 0);
	OK(vg_pinned_pool_create(b.device, NULL, &pool));
	CHECK(vg_memory_pool_is_owned(pool));
	check_location(pool, VG_LOCATION_HOST, 0);
	CHECK_STR(vg_memory_resource_name(pool), "pinned pool");
	use_from_both_sides(pool, b.stream, 0);
	OK(vg_pinned_pool_create(b.device, PINNED(.location = {VG_LOCATION_HOST, 0}, .max_size = 64 << 20), &pool));
	use_from_both_sides(pool, b.stream, 0);
	require_property(b.device, VG_DEVICE_HOST_NUMA_MEMORY_POOLS_SUPPORTED);
	OK(vg_pinned_pool_create(b.device, PINNED(.location = {VG_LOCATION_HOST_NUMA, 0}), &pool));
	check_location(pool, VG_LOCATION_HOST_NUMA, 0);
	use_from_both_sides(pool, b.stream, 0);
	OK(vg_pinned_pool_create(b.device, PINNED(.shareable = 1), &pool)); // memory on the device's NUMA node
	check_location(pool, VG_LOCATION_HOST_NUMA, 0);
	CHECK(vg_memory_pool_is_shareable(pool));
	use_from_both_sides(pool, b.stream, 0);
	pool = NULL;
	REFUSED(vg_pinned_pool_create(b.device, PINNED(.location = {VG_LOCATION_HOST_NUMA, -1}), &pool), VG_INVALID,
		"location.id is -1: a NUMA node is 0 or more");
	REFUSED(vg_pinned_pool_create(b.device, PINNED(.location = {VG_LOCATION_HOST_NUMA, 5000}), &pool), VG_DRIVER,
		"location 5000 of type 3");
	REFUSED(vg_pinned_pool_create(b.device, PINNED(.location = {VG_LOCATION_DEVICE, 0}), &pool), VG_INVALID,
		"location.type is 1");
	CHECK(!pool);
	close_bench(&b);
}

TEST(pinned_pool_has_the_peers_that_were_added)
{
	need_devices(3);
	struct bench b = open_bench();
	struct vg_memory_resource *pool;
	struct vg_device *two = device_of(2);

	require_property(b.device, VG_DEVICE_HOST_MEMORY_POOLS_SUPPORTED);
	OK(vg_pinned_pool_create(b.device, NULL, &pool));
	check_peers(pool, "0");
	OK(vg_memory_pool_add_peers(pool, &two, 1));
	check_peers(pool, "02");
	vg_memory_resource_destroy(pool);
	close_bench(&b);
}

TEST(managed_pools)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool = NULL;
	struct vg_device *one;
	size_t count;

	OK(vg_managed_pool_current(b.device, &pool));
	CHECK(!vg_memory_pool_is_owned(pool));
	check_location(pool, VG_LOCATION_NONE, 0);
	REFUSED(vg_memory_pool_peers(pool, &one, 1, &count), VG_INVALID, "a managed pool has no peers");
	use_from_both_sides(pool, b.stream, 1);
	OK(vg_managed_pool_create(b.device, NULL, &pool));
	check_location(pool, VG_LOCATION_NONE, 0);
	CHECK_STR(vg_memory_resource_name(pool), "managed pool");
	use_from_both_sides(pool, b.stream, 1);
	OK(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_DEVICE, 0), &pool));
	check_location(pool, VG_LOCATION_DEVICE, 0);
	use_from_both_sides(pool, b.stream, 1);
	OK(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST, 0), &pool));
	check_location(pool, VG_LOCATION_HOST, 0);
	use_from_both_sides(pool, b.stream, 1);
	OK(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST_NUMA, 0), &pool));
	check_location(pool, VG_LOCATION_HOST_NUMA, 0);
	use_from_both_sides(pool, b.stream, 1);
	OK(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST_NUMA, VG_NODE_OF_DEVICE), &pool));
	check_location(pool, VG_LOCATION_HOST_NUMA, 0);
	use_from_both_sides(pool, b.stream, 1);
	close_bench(&b);
}

TEST(managed_pool_refuses_invalid_locations)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool = NULL;

	REFUSED(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_DEVICE, -1), &pool), VG_INVALID,
		"it must be a device's ordinal");
	REFUSED(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_DEVICE, 99), &pool), VG_INVALID,
		"preferred_location.id is 99: it must be a device's ordinal");
	REFUSED(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST, 1), &pool), VG_INVALID,
		"of the host it must be 0");
	REFUSED(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST_NUMA, -2), &pool), VG_INVALID,
		"it must be a NUMA node, or VG_NODE_OF_DEVICE");
	REFUSED(vg_managed_pool_create(b.device, MANAGED(VG_LOCATION_HOST_NUMA_CURRENT, 0), &pool), VG_INVALID,
		"preferred_location.type is 4");
	REFUSED(vg_managed_pool_create(b.device, MANAGED((enum vg_location_type)77, 0), &pool), VG_INVALID,
		"preferred_location.type is 77");
	CHECK(!pool);
	close_bench(&b);
}

TEST(pools_are_created_and_destroyed_without_leaks)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool;
	int rounds = getenv("VIRGATE_TEST_FULL") ? 100000 : 1000;

	MEMORY_STEADY(
		b.device, for (int i = 0; i < rounds; i++) {
			OK(vg_device_pool_create(b.device, NULL, &pool));
			vg_memory_resource_destroy(pool);
		});
	close_bench(&b);
}
