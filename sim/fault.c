#include "fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "entry.h"
#include "log.h"
#include "process.h"

#define MOST_RULES 64

// A rule of VIRGATE_SIM_FAULT: from call `first` to call `last`, the function fails. Or all devices are lost at call
// `first`.
struct rule {
	enum vg_entry entry;
	bool lose;
	uint64_t first, last;
	CUresult result;
	_Atomic uint64_t calls;
};

static struct rule rules[MOST_RULES];
static size_t rule_count;
static uint64_t delay_ns, memory_bytes = UINT64_MAX;
static bool restore_sticks;

static const char *const entry_names[] = {
#define ENTRY(abi, api, version, stream, family, need) #abi,
#include "abi/entries.def"
};

int sim_fault_find_entry(const char *name)
{
	for (int i = 0; i < VG_ENTRY_COUNT; i++)
		if (strcmp(entry_names[i], name) == 0)
			return i;
	return -1;
}

static int find_result(const char *name)
{
	for (int code = 1; code <= CUDA_ERROR_UNKNOWN; code++) {
		const char *candidate;
		if (cuGetErrorName((CUresult)code, &candidate) == CUDA_SUCCESS && strcmp(candidate, name) == 0)
			return code;
	}
	return -1;
}

// Parses "N", "N+" or "N-M". Returns false if the text is invalid.
static bool parse_range(const char *text, uint64_t *first, uint64_t *last)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	*first = *last = strtoull(text, &end, 10);
	if (*end == '+' && !end[1]) {
		*last = UINT64_MAX;
	} else if (*end == '-' && end[1] >= '0' && end[1] <= '9') {
		*last = strtoull(end + 1, &end, 10);
		if (*end)
			return false;
	} else if (*end) {
		return false;
	}
	return *first > 0 && *last >= *first;
}

// Parses "[lost@]ENTRY[:RANGE][=CODE]". ENTRY is a driver function.
static int parse_rule(char *clause, char *error, size_t size)
{
	struct rule rule = {.first = 1, .last = UINT64_MAX, .result = CUDA_ERROR_UNKNOWN};
	char *code = strchr(clause, '='), *name = clause;

	if (strncmp(name, "lost@", 5) == 0) {
		rule.lose = true;
		name += 5;
	}
	if (code)
		*code++ = 0;
	char *range = strchr(name, ':');
	if (range)
		*range++ = 0;
	int entry = sim_fault_find_entry(name);
	if (entry < 0) {
		snprintf(error, size, "\"%s\" is not an entry point: use an exported name like cuMemAlloc_v2", name);
		return 1;
	}
	rule.entry = (enum vg_entry)entry;
	if (range && !parse_range(range, &rule.first, &rule.last)) {
		snprintf(error, size, "\"%s\" in %s:%s is not a call number: use N, N+ or N-M, from 1 on", range, name,
			 range);
		return 1;
	}
	if (!code && !rule.lose) {
		snprintf(error, size, "%s has no error: add =CUDA_ERROR_…", name);
		return 1;
	}
	if (code) {
		int result = find_result(code);
		if (result < 0) {
			snprintf(error, size,
				 "\"%s\" is not an error of the driver: use a name like CUDA_ERROR_OUT_OF_MEMORY",
				 code);
			return 1;
		}
		rule.result = (CUresult)result;
	}
	if (rule_count == MOST_RULES) {
		snprintf(error, size, "more than %d rules", MOST_RULES);
		return 1;
	}
	struct rule *slot = &rules[rule_count++];
	slot->entry = rule.entry;
	slot->lose = rule.lose;
	slot->first = rule.first;
	slot->last = rule.last;
	slot->result = rule.result;
	atomic_init(&slot->calls, 0);
	return 0;
}

static int parse_clause(char *clause, char *error, size_t size)
{
	if (strncmp(clause, "slow=", 5) == 0) {
		if (sim_duration_parse(clause + 5, &delay_ns))
			return 0;
		snprintf(error, size, "\"%s\" is not a duration: use 500us, 2ms or 1.5s, up to an hour", clause + 5);
		return 1;
	}
	if (strncmp(clause, "memory=", 7) == 0) {
		int r = vg_size_parse(clause + 7, &memory_bytes);
		if (r == 0)
			return 0;
		snprintf(error, size, "memory=%s %s", clause + 7, vg_size_error_text(r));
		return 1;
	}
	if (strcmp(clause, "stuck@restore") == 0) {
		restore_sticks = true;
		return 0;
	}
	return parse_rule(clause, error, size);
}

// Parses a specification; NULL or empty: no faults. Returns 0, or 1 with a line in `error` that describes the mistake.
static int parse_specification(const char *specification, char *error, size_t error_size)
{
	rule_count = 0;
	delay_ns = 0;
	memory_bytes = UINT64_MAX;
	restore_sticks = false;
	if (!specification || !*specification)
		return 0;
	char *copy = strdup(specification), *rest = copy, *clause;
	if (!copy) {
		snprintf(error, error_size, "out of memory");
		return 1;
	}
	int r = 0;
	while (r == 0 && (clause = strsep(&rest, ";"))) {
		clause += strspn(clause, " ");
		clause[strcspn(clause, " ")] = 0;
		if (*clause)
			r = parse_clause(clause, error, error_size);
	}
	free(copy);
	return r;
}

CUresult sim_fault_start(void)
{
	char error[256];

	if (parse_specification(getenv("VIRGATE_SIM_FAULT"), error, sizeof error) != 0) {
		sim_warn("VIRGATE_SIM_FAULT: %s", error);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (rule_count > 0)
		sim_gate_set(SIM_GATE_FAULTS);
	return CUDA_SUCCESS;
}

// Returns whether a call works although the devices are lost. Such calls use no device, or only what the driver has in
// host memory.
static bool works_without_devices(enum vg_entry entry)
{
	static const char *const families[VG_ENTRY_COUNT] = {
#define ENTRY(abi, api, version, stream, family, need) [VG_ENTRY_##abi] = #family,
#include "abi/entries.def"
	};
	static const char *const working_families[] = {"checkpoint", "coredump", "device",  "error",   "init",
						       "logs",	     "lookup",	 "primary", "profiler"};

	for (size_t i = 0; i < sizeof working_families / sizeof *working_families; i++)
		if (strcmp(families[entry], working_families[i]) == 0)
			return true;
	switch (entry) {
	case VG_ENTRY_cuCtxGetCurrent:
	case VG_ENTRY_cuCtxSetCurrent:
	case VG_ENTRY_cuCtxPushCurrent:
	case VG_ENTRY_cuCtxPushCurrent_v2:
	case VG_ENTRY_cuCtxPopCurrent:
	case VG_ENTRY_cuCtxPopCurrent_v2:
	case VG_ENTRY_cuCtxGetDevice:
	case VG_ENTRY_cuCtxGetDevice_v2:
		return true;
	default:
		return false;
	}
}

static void lose_devices(CUresult result)
{
	for (int i = 0; i < sim_process.device_count; i++) {
		int none = 0;
		atomic_compare_exchange_strong(&sim_process.devices[i].lost, &none, (int)result);
	}
}

CUresult sim_fault_enter(enum vg_entry entry)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < rule_count; i++) {
		struct rule *rule = &rules[i];
		if (rule->entry != entry)
			continue;
		uint64_t call = atomic_fetch_add(&rule->calls, 1) + 1;
		if (rule->lose) {
			if (call == rule->first)
				lose_devices(rule->result);
			if (call >= rule->first)
				result = rule->result;
		} else if (call >= rule->first && call <= rule->last && result == CUDA_SUCCESS) {
			result = rule->result;
		}
	}
	if (result == CUDA_SUCCESS && !works_without_devices(entry))
		result = (CUresult)atomic_load(&sim_process.devices[0].lost); // all devices are lost together
	return result;
}

uint64_t sim_fault_memory(void)
{
	return memory_bytes;
}

bool sim_fault_fails_restore(void)
{
	return restore_sticks;
}

bool sim_fault_slows_operations(void)
{
	return delay_ns != 0;
}

void sim_fault_delay(struct sim_device *device)
{
	if (__builtin_expect(delay_ns == 0, 1))
		return;
	struct timespec left = {.tv_sec = (time_t)(delay_ns / 1000000000), .tv_nsec = (long)(delay_ns % 1000000000)};
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}
