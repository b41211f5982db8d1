#include "core_test.h"

#include <strings.h>

static struct vg_device *device_number(int ordinal)
{
	struct vg_device *device;

	OK(vg_device_get(ordinal, &device));
	return device;
}

TEST(every_property_has_a_number_and_a_name)
{
	struct vg_device *device = device_number(0);
	int count = 0;

#define X(NAME, name, number, kind, fallback)                                 \
	do {                                                                  \
		int by_number, by_name;                                       \
		OK(vg_device_property(device, VG_DEVICE_##NAME, &by_number)); \
		OK(vg_device_property_by_name(device, #NAME, &by_name));      \
		CHECK_INT(by_name, by_number);                                \
		CHECK(strcasecmp(#NAME, #name) == 0);                         \
		CHECK_STR(vg_device_property_name(VG_DEVICE_##NAME), #name);  \
		CHECK_INT(vg_device_property_find(#name), number);            \
		if (vg_device_property_is_flag(VG_DEVICE_##NAME))             \
			CHECK(by_number == 0 || by_number == 1);              \
		count++;                                                      \
	} while (0);
	VG_DEVICE_PROPERTY_LIST(X)
#undef X
	CHECK_INT(count, 143);
}

TEST(properties_match_the_device)
{
	struct vg_device *device = device_number(0);
	int warp, major, minor, by_property;
	char arch[8];

	OK(vg_device_property(device, VG_DEVICE_WARP_SIZE, &warp));
	CHECK_INT(warp, 32);
	vg_device_compute_capability(device, &major, &minor);
	OK(vg_device_property(device, VG_DEVICE_COMPUTE_CAPABILITY_MAJOR, &by_property));
	CHECK_INT(by_property, major);
	snprintf(arch, sizeof arch, "%d%d", major, minor);
	CHECK_STR(vg_device_arch(device), arch);
	CHECK(vg_device_property_is_flag(VG_DEVICE_INTEGRATED));
	CHECK(!vg_device_property_is_flag(VG_DEVICE_WARP_SIZE));
}

TEST(invalid_properties_are_refused)
{
	struct vg_device *device = device_number(0);
	int value = 42;

	REFUSED(vg_device_property(device, (enum vg_device_property)0, &value), VG_INVALID, "0 is no device property");
	REFUSED(vg_device_property(device, (enum vg_device_property) - 1, &value), VG_INVALID,
		"-1 is no device property");
	REFUSED(vg_device_property(device, (enum vg_device_property)100000, &value), VG_INVALID,
		"100000 is no device property");
	REFUSED(vg_device_property_by_name(device, "warp", &value), VG_INVALID, "\"warp\" is no device property");
	REFUSED(vg_device_property_by_name(device, NULL, &value), VG_INVALID, "name is NULL");
	REFUSED(vg_device_property(NULL, VG_DEVICE_WARP_SIZE, &value), VG_INVALID, "device is NULL");
	REFUSED(vg_device_property(device, VG_DEVICE_WARP_SIZE, NULL), VG_INVALID, "ret_value is NULL");
	CHECK_INT(value, 42);
	CHECK_INT(vg_device_property_find(NULL), 0);
	CHECK(!vg_device_property_name((enum vg_device_property)100000));
	CHECK(!vg_device_property_is_flag((enum vg_device_property) - 5));
}

TEST(invalid_ordinals_are_refused_with_the_range)
{
	struct vg_device *device = NULL;
	int count;

	OK(vg_device_count(&count));
	REFUSED(vg_device_get(-1, &device), VG_INVALID, "device -1");
	REFUSED(vg_device_get(count, &device), VG_INVALID, "counted from 0");
	REFUSED(vg_device_get(0, NULL), VG_INVALID, "ret_device is NULL");
	CHECK(!device);
}

TEST(identity)
{
	struct vg_device *device = device_number(0);
	const char *bus = vg_device_pci_bus_id(device), *uuid = vg_device_uuid(device);

	CHECK(device == device_number(0));
	CHECK_INT(strlen(bus), 12);
	CHECK(bus[4] == ':' && bus[7] == ':' && bus[10] == '.');
	CHECK_INT(strlen(uuid), 36);
	CHECK_INT(strspn(uuid, "0123456789abcdef-"), 36);
	CHECK_INT(vg_device_ordinal(device), 0);
	CHECK(*vg_device_name(device));
	CHECK_INT(vg_device_ordinal(NULL), -1);
	CHECK_STR(vg_device_pci_bus_id(NULL), "");
	CHECK_STR(vg_device_arch(NULL), "");
}

TEST(a_thread_without_a_context_has_device_0)
{
	struct vg_device *device;

	OK(vg_device_current(&device));
	CHECK(device == device_number(0));
	REFUSED(vg_device_current(NULL), VG_INVALID, "ret_device is NULL");
}

TEST(peers)
{
	struct vg_device *device = device_number(0);
	int can = -1, count;

	OK(vg_device_can_access_peer(device, device, &can));
	CHECK_INT(can, 1);
	REFUSED(vg_device_can_access_peer(device, NULL, &can), VG_INVALID, "peer is NULL");
	OK(vg_device_count(&count));
	if (count > 1) {
		can = -1;
		OK(vg_device_can_access_peer(device, device_number(1), &can));
		CHECK(can == 0 || can == 1);
	}
}

TEST(memory_info_needs_no_context)
{
	struct vg_device *device = device_number(0);
	size_t available = 0, total = 0;

	OK(vg_device_memory_info(device, &available, &total));
	CHECK(available > 0 && available <= total);
	OK(vg_device_memory_info(device, NULL, NULL));
	REFUSED(vg_device_memory_info(NULL, &available, &total), VG_INVALID, "device is NULL");
}

TEST(syncing_an_idle_device_returns_at_once)
{
	struct vg_device *device = device_number(0);

	OK(vg_device_sync(device));
	struct vg_context *context = first_context();
	OK(vg_device_sync(device));
	vg_context_destroy(context);
	REFUSED(vg_device_sync(NULL), VG_INVALID, "device is NULL");
}
