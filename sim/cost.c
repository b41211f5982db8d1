#include "cost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/size.h"
#include "entry.h"
#include "fault.h"
#include "log.h"
#include "process.h"

enum { KERNELS_MOST = 64, KERNEL_NAME = 128 };

struct kernel_cost {
	char name[KERNEL_NAME]; // name of the kernel; empty: all kernels that have no entry of their own
	// known: VIRGATE_SIM_COST sets the duration. open: the kernel lasts at least as long as the host needs to
	// interpret it.
	bool known, open;
	uint64_t ns;
};
static struct kernel_cost kernels[KERNELS_MOST];
static size_t kernel_count;
// Rates in bytes per second, as on an H200: copies over PCIe in each direction, and copies within the device.
static uint64_t htod_rate = 55000000000u, dtoh_rate = 55000000000u, device_rate = 2000000000000u;
static uint64_t call_ns[VG_ENTRY_COUNT]; // least duration of each driver call

// Parses how long a kernel takes, such as "200us". With a "+" at the end ("200us+"), the kernel takes at least that
// long, and lasts until the host has interpreted it.
static bool parse_kernel(const char *name, char *value, char *error, size_t size)
{
	struct kernel_cost *kernel = &kernels[kernel_count];
	size_t length = strlen(value);

	if (kernel_count == KERNELS_MOST || strlen(name) >= KERNEL_NAME) {
		snprintf(error, size, "more than %d kernels, or a name of more than %d characters", KERNELS_MOST,
			 KERNEL_NAME - 1);
		return false;
	}
	kernel->open = length > 0 && value[length - 1] == '+';
	if (kernel->open)
		value[length - 1] = 0;
	if (!sim_duration_parse(value, &kernel->ns)) {
		snprintf(error, size, "\"%s\" is not a duration: use 200us, 2ms or 1.5s, up to an hour, or 200us+",
			 value);
		return false;
	}
	snprintf(kernel->name, sizeof kernel->name, "%s", name);
	kernel->known = true;
	kernel_count++;
	return true;
}

static bool parse_call(const char *name, const char *value, char *error, size_t size)
{
	int entry = sim_fault_find_entry(name);

	if (entry < 0) {
		snprintf(error, size, "\"%s\" is not an entry point: use the exported name, such as cuMemUnmap", name);
		return false;
	}
	if (!sim_duration_parse(value, &call_ns[entry])) {
		snprintf(error, size, "\"%s\" is not a duration: use 200us, 2ms or 1.5s, up to an hour", value);
		return false;
	}
	sim_gate_set(SIM_GATE_COSTS);
	return true;
}

static bool parse_rate(const char *key, const char *value, char *error, size_t size)
{
	uint64_t rate;
	bool host = strcmp(key, "host") == 0, to_host = host || strcmp(key, "dtoh") == 0,
	     from_host = host || strcmp(key, "htod") == 0, device = strcmp(key, "device") == 0;

	if (!to_host && !from_host && !device) {
		snprintf(error, size,
			 "unknown key \"%s\" (there are kernel, kernel:NAME, call:NAME, host, htod, dtoh, device)",
			 key);
		return false;
	}
	if (vg_size_parse(value, &rate) != 0 || rate == 0) {
		snprintf(error, size, "%s=%s must be bytes a second, such as 50G", key, value);
		return false;
	}
	htod_rate = from_host ? rate : htod_rate;
	dtoh_rate = to_host ? rate : dtoh_rate;
	device_rate = device ? rate : device_rate;
	return true;
}

static bool parse_clause(char *clause, char *error, size_t size)
{
	char *value = strchr(clause, '=');

	if (!value) {
		snprintf(error, size, "\"%s\" is not key=value", clause);
		return false;
	}
	*value++ = 0;
	if (strcmp(clause, "kernel") == 0)
		return parse_kernel("", value, error, size);
	if (strncmp(clause, "kernel:", 7) == 0 && clause[7])
		return parse_kernel(clause + 7, value, error, size);
	if (strncmp(clause, "call:", 5) == 0)
		return parse_call(clause + 5, value, error, size);
	return parse_rate(clause, value, error, size);
}

CUresult sim_cost_start(void)
{
	const char *specification = getenv("VIRGATE_SIM_COST");
	char error[256] = "out of memory", *clause;

	kernel_count = 0;
	memset(call_ns, 0, sizeof call_ns);
	if (!specification || !*specification)
		return CUDA_SUCCESS;
	bool valid = sim_process.config.slice_ns != 0;
	if (!valid)
		snprintf(error, sizeof error, "add slice= to VIRGATE_SIM: without it operations have no costs");
	char *copy = strdup(specification), *rest = copy;
	while (valid && (clause = strsep(&rest, ",")))
		valid = parse_clause(clause, error, sizeof error);
	if (!valid || !copy)
		sim_warn("VIRGATE_SIM_COST: %s", error);
	free(copy);
	return valid && copy ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct kernel_cost find_kernel(const char *name)
{
	struct kernel_cost found = {.open = true}; // without an entry, the kernel takes as long as its interpretation

	for (size_t i = 0; i < kernel_count; i++)
		if (strcmp(kernels[i].name, name) == 0)
			return kernels[i];
		else if (!kernels[i].name[0])
			found = kernels[i];
	return found;
}

struct region_piece sim_cost_kernel(const char *name, uint64_t blocks, unsigned sms)
{
	struct kernel_cost cost = find_kernel(name);
	uint64_t all = sim_process.config.sms, wanted = blocks < all ? blocks : all;
	// Fewer multiprocessors than wanted: the kernel takes proportionally longer.
	uint64_t ns = wanted > sms ? (cost.ns * wanted + sms - 1) / sms : cost.ns;

	return (struct region_piece){.engine = TIME_SMS,
				     .open = cost.open,
				     .measured = !cost.known,
				     .sms = (unsigned)(wanted < sms ? wanted : sms),
				     .need_ns = ns};
}

static uint64_t compute_copy_time(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)((double)bytes * 1e9 / (double)rate);
}

struct region_piece sim_cost_device_bytes(uint64_t bytes)
{
	return (struct region_piece){
		.engine = TIME_SMS, .sms = sim_process.sms, .need_ns = compute_copy_time(bytes, device_rate)};
}

struct region_piece sim_cost_host_bytes(uint64_t bytes, bool from_device)
{
	bool second = from_device && sim_process.config.copy_engines > 1;

	return (struct region_piece){.engine = second ? TIME_COPY_OUT : TIME_COPY_IN,
				     .need_ns = compute_copy_time(bytes, from_device ? dtoh_rate : htod_rate)};
}

void sim_cost_sleep(enum vg_entry entry)
{
	uint64_t end_ns = sim_clock_ns() + call_ns[entry];
	struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};

	while (call_ns[entry] && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}
