// Declares the state of the process and of the devices that it sees (process.c). Any thread.
#pragma once

#include "ptx/ptx.h"
#include "region.h"
#include "sim.h"

struct sim_device {
	int ordinal;  // number that the program sees, after CUDA_VISIBLE_DEVICES
	int physical; // index of the device on the simulated node
	CUuuid uuid;
	char pci[16]; // "0000:01:00.0"
	// The access that kernels have, a byte for each granule (2 MiB) of device addresses: 1 read, 2 write.
	uint8_t *permission;
	struct ptx_space space;
	_Atomic int lost;	       // error that every call on the device returns; 0: the device works
	_Atomic bool joined;	       // this client of MPS has had a context on the device
	_Atomic uint64_t failure_seen; // the latest value of region_time_failure() that this process has handled
	// A thread holds this lock while it creates or ends the primary context. It is taken before `lock`. The context
	// keeps its handle, so a thread that retains it waits here until another thread has ended it.
	pthread_mutex_t primary_lock;
	pthread_mutex_t lock; // guards the primary context, the default pool, the green contexts
	struct sim_context *primary;
	unsigned primary_retains, primary_flags; // how often `primary` is retained; 0: it does not exist now
	struct sim_pool *default_pool, *current_pool;
};

struct sim_process {
	struct sim_config config;
	struct region *region; // the state shared with the simulated node's other processes
	struct sim_device devices[SIM_DEVICES];
	int device_count;
	unsigned sms;	   // number of multiprocessors of a device that this process may use
	_Atomic int fault; // CUresult: the sticky error of all contexts on every device; 0: no error
	// The range of device addresses, the window, is [window, window + window_size). The host cannot access it. The
	// memory mapped at an address is at address + window_offset.
	CUdeviceptr window;
	size_t window_size;
	intptr_t window_offset;
};
extern struct sim_process sim_process;

// Returns the sticky error, or CUDA_SUCCESS. Every call on a context, and every attempt to create one, returns the
// sticky error.
static inline CUresult sim_failure(void)
{
	return (CUresult)atomic_load_explicit(&sim_process.fault, memory_order_acquire);
}

CUresult sim_device_get(CUdevice device, struct sim_device **ret_device);
uint64_t sim_clock_ns(void);	    // CLOCK_MONOTONIC
uint64_t sim_device_clock_ns(void); // the devices' time, which is the same in all processes
unsigned sim_driver_version(void);  // the configured version; works before cuInit
