// Tests devices: names, attributes and their relations, identifiers, invalid ordinals.
#include "conformance.h"

static int attribute(CUdevice_attribute which)
{
	int value = -1;

	WORKS(cuDeviceGetAttribute(&value, which, device));
	return value;
}

CONFORM(ordinals)
{
	int count = 0;
	CUdevice other;

	need_context();
	WORKS(cuDeviceGetCount(&count));
	HOLDS(count >= 1);
	for (int i = 0; i < count; i++) {
		WORKS(cuDeviceGet(&other, i));
		EQUALS(other, i);
	}
	GIVES(cuDeviceGet(&other, count), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDeviceGet(&other, -1), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(names)
{
	char name[256] = "", cut[5] = "";

	need_context();
	WORKS(cuDeviceGetName(name, sizeof name, device));
	HOLDS(strlen(name) > 4);
	WORKS(cuDeviceGetName(cut, sizeof cut, device));
	EQUALS(strlen(cut), 4);
	HOLDS(strncmp(cut, name, 4) == 0);
	GIVES(cuDeviceGetName(name, sizeof name, 99), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(total_memory)
{
	size_t total = 0, available = 0, by_context = 0;

	need_context();
	WORKS(cuDeviceTotalMem(&total, device));
	WORKS(cuMemGetInfo(&available, &by_context));
	EQUALS(by_context, total);
	HOLDS(available < total);
	EQUALS(total % 65536, 0);
	GIVES(cuDeviceTotalMem(NULL, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceTotalMem(&total, 99), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(attribute_errors)
{
	int value;

	need_context();
	GIVES(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetAttribute(&value, 0, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetAttribute(&value, 100000, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(attributes)
{
	int major, minor, sms, threads;

	need_context();
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1024);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y), 1024);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z), 64);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 0x7fffffff);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y), 65535);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z), 65535);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY), 65536);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 49152);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK), 65536);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR), 65536);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT), 512);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT), 32);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED), 0);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE), CU_COMPUTEMODE_DEFAULT);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 1);
	major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	HOLDS(major * 10 + minor >= 75);
	sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	HOLDS(sms > 0);
	threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	HOLDS(threads >= 1024 && threads % 32 == 0);
	HOLDS(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >
	      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
	HOLDS(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) >=
	      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) +
		      attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
	EQUALS(attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK), 1024);
	HOLDS(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) > 0);
	HOLDS(attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) > 0);
}

CONFORM(identifiers)
{
	CUuuid first = {{0}}, again = {{0}}, none = {{0}};
	char bus[32] = "", small[4];
	CUdevice found = -1;

	need_context();
	WORKS(cuDeviceGetUuid(&first, device));
	WORKS(cuDeviceGetUuid(&again, device));
	HOLDS(memcmp(&first, &again, sizeof first) == 0);
	HOLDS(memcmp(&first, &none, sizeof first) != 0);
	GIVES(cuDeviceGetUuid(NULL, device), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuDeviceGetPCIBusId(bus, sizeof bus, device));
	EQUALS(strlen(bus), 12); // 0000:00:00.0
	WORKS(cuDeviceGetByPCIBusId(&found, bus));
	EQUALS(found, device);
	GIVES(cuDeviceGetPCIBusId(small, sizeof small, device), CUDA_ERROR_INVALID_VALUE);
	FAILS(cuDeviceGetByPCIBusId(&found, "ffff:ff:1f.0"));
}

CONFORM(peers)
{
	int can = -1;

	need_context();
	WORKS(cuDeviceCanAccessPeer(&can, device, device));
	EQUALS(can, 0);
	GIVES(cuDeviceCanAccessPeer(&can, device, 99), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDeviceCanAccessPeer(NULL, device, device), CUDA_ERROR_INVALID_VALUE);
}

CHILD(visible_none)
{
	int count = -1;

	GIVES(cuInit(0), CUDA_ERROR_NO_DEVICE);
	FAILS(cuDeviceGetCount(&count));
}

CHILD(visible_first)
{
	int count = -1;

	WORKS(cuInit(0));
	WORKS(cuDeviceGetCount(&count));
	EQUALS(count, 1);
}

CONFORM(visible_devices)
{
	CUuuid uuid;
	char text[64], *out = text;
	const char *before = getenv("CUDA_VISIBLE_DEVICES");
	char *kept = before ? strdup(before) : NULL;

	need_context();
	WORKS(cuDeviceGetUuid(&uuid, device));
	out += sprintf(out, "GPU-");
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)uuid.bytes[i]);
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	run_child("visible_first", NULL);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	run_child("visible_none", NULL);
	setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
	run_child("visible_none", NULL);
	setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles", 1); // Slurm's value for a job without a GPU
	run_child("visible_none", NULL);
	text[12] = '\0'; // CUDA also accepts the beginning of a UUID, if no other device has the same one
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	run_child("visible_first", NULL);
	setenv("CUDA_VISIBLE_DEVICES", "0,77,1", 1); // entries after an invalid one are ignored
	run_child("visible_first", NULL);
	if (kept)
		setenv("CUDA_VISIBLE_DEVICES", kept, 1);
	else
		unsetenv("CUDA_VISIBLE_DEVICES");
	free(kept);
}

CONFORM(atomics_over_links)
{
	CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS},
			  wrong = CU_ATOMIC_OPERATION_MAX;
	unsigned capabilities[2] = {99, 99};
	int native = 9;

	need_context();
	WORKS(cuDeviceGetAttribute(&native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, device));
	WORKS(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, device));
	if (!native)
		EQUALS(capabilities[1], 0);
	GIVES(cuDeviceGetHostAtomicCapabilities(NULL, operations, 2, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 0, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetHostAtomicCapabilities(capabilities, &wrong, 1, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 99), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, device, device), CUDA_ERROR_INVALID_DEVICE);
}
