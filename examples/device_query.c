// Prints the properties of the devices as a CUDA program sees them. Inside a vGPU the memory is the limit.
#include "example.h"

static int get_attribute(CUdevice device, CUdevice_attribute which)
{
	int value = 0;

	must(cuDeviceGetAttribute(&value, which, device), "cannot ask for attribute %d", which);
	return value;
}

static void print_device(int ordinal)
{
	CUdevice device;
	CUuuid uuid;
	char name[256], bus[32];
	size_t available, total;

	open_device(ordinal, &device);
	must(cuDeviceGetName(name, sizeof name, device), "cannot ask for the name");
	must(cuDeviceGetUuid(&uuid, device), "cannot ask for the UUID");
	must(cuDeviceGetPCIBusId(bus, sizeof bus, device), "cannot ask for the bus");
	must(cuMemGetInfo(&available, &total), "cannot ask for the memory");
	printf("device %d: %s\n  UUID GPU-", ordinal, name);
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
	printf("\n  bus %s\n", bus);
	printf("  compute capability %d.%d, %d multiprocessors\n",
	       get_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
	       get_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
	       get_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
	printf("  memory %s (%zu bytes), free %s (%zu bytes)\n", size_text(total), total, size_text(available),
	       available);
	must(cuDevicePrimaryCtxRelease(device), "cannot close the context");
}

int main(void)
{
	int version = 0, count = 0;

	program = "device_query";
	must(cuInit(0), "cannot start the CUDA driver");
	must(cuDriverGetVersion(&version), "cannot ask for the driver's version");
	must(cuDeviceGetCount(&count), "cannot count the devices");
	printf("CUDA driver %d.%d, %d device%s\n", version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s");
	for (int i = 0; i < count; i++)
		print_device(i);
	return 0;
}
