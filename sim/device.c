// Implements queries of devices: number, names, identity, access to each other.
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "entry.h"
#include "process.h"

CUresult sim_device_get(CUdevice handle, struct sim_device **ret_device)
{
	if (handle < 0 || handle >= sim_process.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_device = &sim_process.devices[handle];
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
	SIM_ENTER(cuDeviceGetCount);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_process.device_count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	struct sim_device *found;

	SIM_ENTER(cuDeviceGet);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(ordinal, &found));
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetName);
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	snprintf(name, (size_t)len, "%s", sim_process.config.names[device->physical]);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetUuid_v2);
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*uuid = device->uuid;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetUuid);
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceTotalMem_v2);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*bytes = sim_process.config.memory;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	size_t all;

	SIM_ENTER(cuDeviceTotalMem);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(cuDeviceTotalMem_v2(&all, dev));
	*bytes = all > UINT32_MAX ? UINT32_MAX : (unsigned)all;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceComputeCapability);
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*major = (int)sim_process.config.cc_major;
	*minor = (int)sim_process.config.cc_minor;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetProperties);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*prop = (CUdevprop){.maxThreadsPerBlock = 1024,
			    .maxThreadsDim = {1024, 1024, 64},
			    .maxGridSize = {0x7fffffff, 65535, 65535},
			    .sharedMemPerBlock = 49152,
			    .totalConstantMemory = 65536,
			    .SIMDWidth = 32,
			    .memPitch = 0x7fffffff,
			    .regsPerBlock = 65536,
			    .clockRate = 1980000,
			    .textureAlign = 512};
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetPCIBusId);
	if (!pciBusId || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	if ((size_t)len <= strlen(device->pci))
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pciBusId, (size_t)len, "%s", device->pci);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain = 0, bus, slot, function = 0;

	SIM_ENTER(cuDeviceGetByPCIBusId);
	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	for (int i = 0; i < sim_process.device_count; i++)
		if (domain == 0 && slot == 0 && bus == (unsigned)sim_process.devices[i].physical + 1) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
						    unsigned numChannels, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetTexture1DLinearMaxWidth);
	if (!maxWidthInElements || (numChannels != 1 && numChannels != 2 && numChannels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*maxWidthInElements = (size_t)1 << 28;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetExecAffinitySupport);
	if (!pi || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	*pi = 0; // needs MPS
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					    CUflushGPUDirectRDMAWritesScope scope)
{
	SIM_ENTER(cuFlushGPUDirectRDMAWrites);
	return CUDA_ERROR_NOT_SUPPORTED; // GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS is 0
}

// ---- peers ---------------------------------------------------------------------------------

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	struct sim_device *device, *peer;

	SIM_ENTER(cuDeviceCanAccessPeer);
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	SIM_TRY(sim_device_get(peerDev, &peer));
	*canAccessPeer = device != peer && sim_process.config.peers;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
					 CUdevice dstDevice)
{
	struct sim_device *source, *target;

	SIM_ENTER(cuDeviceGetP2PAttribute);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(srcDevice, &source));
	SIM_TRY(sim_device_get(dstDevice, &target));
	if (source == target)
		return CUDA_ERROR_INVALID_DEVICE;
	switch ((int)attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = (int)sim_process.config.peers;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

// ---- atomic operations over links ----------------------------------------------------------

static CUresult list_capabilities(unsigned *capabilities, const CUatomicOperation *operations, unsigned count,
				  bool native)
{
	const unsigned scalars =
		CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;

	if (!capabilities || !operations || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if ((unsigned)operations[i] >= CU_ATOMIC_OPERATION_MAX)
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		bool whole = operations[i] < CU_ATOMIC_OPERATION_FLOAT_ADD;
		capabilities[i] =
			!native ? 0
				: scalars | (whole ? CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED : 0);
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
						   unsigned int count, CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetHostAtomicCapabilities);
	SIM_TRY(sim_device_get(dev, &device));
	return list_capabilities(capabilities, operations, count, false); // HOST_NATIVE_ATOMIC_SUPPORTED is 0
}

CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const CUatomicOperation *operations,
						  unsigned int count, CUdevice srcDevice, CUdevice dstDevice)
{
	struct sim_device *source, *target;

	SIM_ENTER(cuDeviceGetP2PAtomicCapabilities);
	SIM_TRY(sim_device_get(srcDevice, &source));
	SIM_TRY(sim_device_get(dstDevice, &target));
	if (source == target)
		return CUDA_ERROR_INVALID_DEVICE;
	return list_capabilities(capabilities, operations, count, true);
}
