// Prints the GPUs, their properties, and which of them can access each other's memory.
//   devices [PROPERTY…]
#include "check.h"

static void print_property(struct vg_device *device, const char *name)
{
	enum vg_device_property property = vg_device_property_find(name);
	int value;

	check(vg_device_property_by_name(device, name, &value));
	if (vg_device_property_is_flag(property))
		printf("  %s: %s\n", vg_device_property_name(property), value ? "yes" : "no");
	else
		printf("  %s: %d\n", vg_device_property_name(property), value);
}

static void print_device(struct vg_device *device)
{
	size_t available, total;

	check(vg_device_memory_info(device, &available, &total));
	printf("device %d: %s, sm_%s, %s\n", vg_device_ordinal(device), vg_device_name(device), vg_device_arch(device),
	       vg_device_pci_bus_id(device));
	printf("  GPU-%s\n", vg_device_uuid(device));
	printf("  memory: %zu of %zu MiB free\n", available >> 20, total >> 20);
}

int main(int argc, char **argv)
{
	int count, can;

	check(vg_device_count(&count));
	for (int i = 0; i < count; i++) {
		struct vg_device *device, *peer;

		check(vg_device_get(i, &device));
		print_device(device);
		print_property(device, "multiprocessor_count");
		print_property(device, "cooperative_launch");
		for (int k = 1; k < argc; k++)
			print_property(device, argv[k]);
		for (int k = 0; k < count; k++) {
			check(vg_device_get(k, &peer));
			check(vg_device_can_access_peer(device, peer, &can));
			if (can && peer != device)
				printf("  reaches the memory of device %d\n", k);
		}
	}
	printf("devices: %d shown\n", count);
	return 0;
}
