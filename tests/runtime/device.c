// Tests devices: selection, properties, limits, flags, versions, entry points, several devices.
#include <cuda_profiler_api.h>

#include "cudart.h"

CONFORM(devices_are_counted)
{
	int count = -1, device = -1;

	WORKS(cudaGetDeviceCount(&count));
	HOLDS(count >= 1);
	WORKS(cudaGetDevice(&device));
	EQUALS(device, 0);
	WORKS(cudaSetDevice(count - 1));
	WORKS(cudaGetDevice(&device));
	EQUALS(device, count - 1);
	WORKS(cudaSetDevice(0));
	GIVES_LAST(cudaSetDevice(count), cudaErrorInvalidDevice);
	GIVES_LAST(cudaSetDevice(-1), cudaErrorInvalidDevice);
	GIVES_LAST(cudaGetDeviceCount(NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaGetDevice(NULL), cudaErrorInvalidValue);
	WORKS(cudaGetDevice(&device));
	EQUALS(device, 0);
}

CONFORM(properties_agree_with_attributes)
{
	struct cudaDeviceProp properties;
	size_t available = 0, total = 0;
	int value = -1;

	memset(&properties, 0xff, sizeof properties);
	WORKS(cudaGetDeviceProperties(&properties, 0));
	HOLDS(strlen(properties.name) > 0 && strlen(properties.name) < sizeof properties.name);
	WORKS(cudaMemGetInfo(&available, &total));
	EQUALS(properties.totalGlobalMem, total);
	HOLDS(available <= total);
	EQUALS(properties.warpSize, 32);
	EQUALS(properties.maxThreadsPerBlock, 1024);
	EQUALS(properties.maxThreadsDim[2], 64);
	EQUALS(properties.sharedMemPerBlock, 48 << 10);
	EQUALS(properties.totalConstMem, 64 << 10);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
	EQUALS(properties.major, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0));
	EQUALS(properties.minor, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	EQUALS(properties.multiProcessorCount, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	EQUALS(properties.sharedMemPerBlockOptin, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrL2CacheSize, 0));
	EQUALS(properties.l2CacheSize, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, 0));
	EQUALS(properties.memoryPoolsSupported, value);
	WORKS(cudaDeviceGetAttribute(&value, cudaDevAttrMaxGridDimX, 0));
	EQUALS(properties.maxGridSize[0], value);
	EQUALS(properties.unifiedAddressing, 1);
	GIVES_LAST(cudaGetDeviceProperties(&properties, 1000), cudaErrorInvalidDevice);
	GIVES_LAST(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1000), cudaErrorInvalidDevice);
	GIVES_LAST(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)100000, 0), cudaErrorInvalidValue);
	int chosen = -1;
	WORKS(cudaChooseDevice(&chosen, &properties));
	EQUALS(chosen, 0);
}

CONFORM(devices_are_found_by_bus_id)
{
	char bus[32] = "";
	int device = -1;

	WORKS(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
	HOLDS(strlen(bus) == 12);
	WORKS(cudaDeviceGetByPCIBusId(&device, bus));
	EQUALS(device, 0);
	FAILS(cudaDeviceGetByPCIBusId(&device, "no bus"));
	cudaGetLastError();
}

CONFORM(limits)
{
	size_t value = 0;

	WORKS(cudaDeviceGetLimit(&value, cudaLimitStackSize));
	HOLDS(value >= 1024);
	WORKS(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	WORKS(cudaDeviceGetLimit(&value, cudaLimitStackSize));
	HOLDS(value >= 4096);
	WORKS(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
	EQUALS(value, 8 << 20);
	WORKS(cudaDeviceGetLimit(&value, cudaLimitPrintfFifoSize));
	HOLDS(value > 0);
	FAILS(cudaDeviceGetLimit(&value, (enum cudaLimit)99));
	cudaGetLastError();
}

CONFORM(cache_configuration_and_priorities)
{
	enum cudaFuncCache cache = cudaFuncCachePreferL1;
	int least = -1, greatest = 1;

	WORKS(cudaDeviceGetCacheConfig(&cache));
	WORKS(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
	WORKS(cudaDeviceSetCacheConfig(cudaFuncCachePreferNone));
	WORKS(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	EQUALS(least, 0);
	HOLDS(greatest < 0);
}

CHILD(flags)
{
	unsigned flags = 99;

	WORKS(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	WORKS(cudaGetDeviceFlags(&flags));
	EQUALS(flags & cudaDeviceScheduleMask, cudaDeviceScheduleBlockingSync);
	WORKS(cudaFree(NULL));
	WORKS(cudaGetDeviceFlags(&flags));
	EQUALS(flags & cudaDeviceScheduleMask, cudaDeviceScheduleBlockingSync);
	GIVES(cudaSetDeviceFlags(0x700), cudaErrorInvalidValue);
}

CONFORM(device_flags)
{
	run_child("flags", NULL);
}

CONFORM(versions)
{
	int runtime = 0, driver = 0;

	WORKS(cudaRuntimeGetVersion(&runtime));
	BETWEEN(runtime, 13000, 13999);
	WORKS(cudaDriverGetVersion(&driver));
	HOLDS(driver >= runtime);
	GIVES_LAST(cudaRuntimeGetVersion(NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaDriverGetVersion(NULL), cudaErrorInvalidValue);
}

CONFORM(entry_points_of_the_driver)
{
	enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;
	void *function = NULL;
	int count = -1;

	WORKS(cudaGetDriverEntryPoint("cuDeviceGetCount", &function, cudaEnableDefault, &status));
	EQUALS(status, cudaDriverEntryPointSuccess);
	HOLDS(function != NULL);
	if (function)
		EQUALS(((int (*)(int *))function)(&count), 0);
	HOLDS(count >= 1);
	WORKS(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 3020, cudaEnableDefault, &status));
	EQUALS(status, cudaDriverEntryPointSuccess);
	WORKS(cudaGetDriverEntryPoint("cuThereIsNoSuchFunction", &function, cudaEnableDefault, &status));
	EQUALS(status, cudaDriverEntryPointSymbolNotFound);
	HOLDS(function == NULL);
}

CHILD(several)
{
	int count = 0, can = -1, device = -1, *one, *other, value = 6;

	NEED(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	NEED(cudaMalloc((void **)&one, sizeof *one));
	WORKS(cudaSetDevice(1));
	NEED(cudaMalloc((void **)&other, sizeof *other));
	WORKS(launch_with(store, 1, 1, (void *[]){&other, &value}, NULL));
	EQUALS(read_int(other), 6);
	struct cudaPointerAttributes attributes;
	WORKS(cudaPointerGetAttributes(&attributes, other));
	EQUALS(attributes.device, 1);
	WORKS(cudaPointerGetAttributes(&attributes, one));
	EQUALS(attributes.device, 0);
	WORKS(cudaMemcpyPeer(one, 0, other, 1, sizeof *one));
	EQUALS(read_int(one), 6);
	WORKS(cudaDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		WORKS(cudaDeviceEnablePeerAccess(0, 0));
		GIVES(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
		WORKS(cudaDeviceDisablePeerAccess(0));
	}
	GIVES(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
	// Each device has its own copy of a variable, so setting it on one device does not change the other.
	value = 100;
	WORKS(cudaMemcpyToSymbol(symbol_counter(), &value, sizeof value, 0, cudaMemcpyHostToDevice));
	WORKS(cudaSetDevice(0));
	WORKS(cudaMemcpyFromSymbol(&value, symbol_counter(), sizeof value, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 7);
	WORKS(cudaGetDevice(&device));
	EQUALS(device, 0);
}

CONFORM(several_devices)
{
	int can = -1;

	run_child("several", NULL);
	WORKS(cudaDeviceCanAccessPeer(&can, 0, 0));
	EQUALS(can, 0);
	GIVES_LAST(cudaDeviceCanAccessPeer(&can, 0, 1000), cudaErrorInvalidDevice);
	GIVES_LAST(cudaDeviceEnablePeerAccess(1000, 0), cudaErrorInvalidDevice);
}

CONFORM(profiler_starts_and_stops)
{
	WORKS(cudaProfilerStart());
	WORKS(cudaProfilerStop());
}

CHILD(chooses)
{
	int device = -1, valid[] = {0};

	WORKS(cudaSetValidDevices(valid, 1));
	GIVES(cudaSetValidDevices((int[]){1000}, 1), cudaErrorInvalidDevice);
	WORKS(cudaInitDevice(0, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
	GIVES(cudaInitDevice(1000, 0, 0), cudaErrorInvalidDevice);
	WORKS(cudaGetDevice(&device));
	EQUALS(device, 0);
}

CONFORM(device_is_initialized)
{
	run_child("chooses", NULL);
}

CONFORM(settings_without_effect)
{
	enum cudaSharedMemConfig banks = cudaSharedMemBankSizeEightByte;

	WORKS(cudaDeviceGetSharedMemConfig(&banks));
	WORKS(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeDefault));
	WORKS(cudaFuncSetSharedMemConfig(empty, cudaSharedMemBankSizeDefault));
	WORKS(cudaCtxResetPersistingL2Cache());
}

static void CUDART_CB ignore_message(void *data, cudaLogLevel level, char *message, size_t length)
{
}

CONFORM(error_log)
{
	cudaLogsCallbackHandle callback;
	cudaLogIterator iterator = 0;
	char text[4096];
	size_t size = sizeof text;

	WORKS(cudaLogsRegisterCallback(ignore_message, NULL, &callback));
	WORKS(cudaLogsUnregisterCallback(callback));
	WORKS(cudaLogsCurrent(&iterator, 0));
	WORKS(cudaLogsDumpToMemory(&iterator, text, &size, 0));
	HOLDS(size < sizeof text);
}
