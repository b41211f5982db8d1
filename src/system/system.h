// Lists the GPUs of this machine and their processes, for the daemon. One thread at a time for each system. In a child
// after fork, the first call initialises NVML again.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VG_SYSTEM_DEVICES = 64, VG_SYSTEM_UUID_TEXT = 41, VG_SYSTEM_PROCESSES = 1024 };

struct vg_system;

struct vg_system_device {
	unsigned int index;
	uint8_t uuid[16];
	char uuid_text[VG_SYSTEM_UUID_TEXT]; // "GPU-…"
	char name[96];
	uint64_t memory;
	int compute_major, compute_minor; // 0: unknown
};

struct vg_system_process {
	uint32_t pid;
	bool memory_known;
	uint64_t memory;
};

// Opens the GPUs of this machine. Returns 0, or 1 if there is no NVML or no GPU; then `problem` has a message for
// users.
int vg_system_open(struct vg_system **ret_system, char *problem, size_t capacity);
void vg_system_close(struct vg_system *system);

bool vg_system_simulated(const struct vg_system *system);
// Returns the absolute path of the simulated node's directory; "" if the GPUs are real, or if the path is unknown.
const char *vg_system_simulated_directory(const struct vg_system *system);
const char *vg_system_driver_version(const struct vg_system *system);
// Returns the list of GPUs, which does not change while the system is open.
size_t vg_system_device_count(const struct vg_system *system);
const struct vg_system_device *vg_system_device(const struct vg_system *system, size_t index);

// Reads the memory of a GPU. Returns 0, or -EIO if NVML fails.
int vg_system_memory_used(struct vg_system *system, size_t index, uint64_t *ret_used);
// Lists the processes that have a context on the device. No process occurs twice. Returns 0, -EIO, or -ENOBUFS if the
// array is too small.
int vg_system_processes(struct vg_system *system, size_t index,
			struct vg_system_process ret_processes[VG_SYSTEM_PROCESSES], size_t *ret_count);

// Parses "GPU-" and 8-4-4-4-12 hexadecimal digits. Returns false if the text is not the UUID of a GPU.
bool vg_system_uuid_parse(const char *text, uint8_t ret_uuid[16]);
void vg_system_uuid_format(const uint8_t uuid[16], char ret_text[VG_SYSTEM_UUID_TEXT]);
