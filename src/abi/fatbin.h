// How a fat binary is laid out: a container, and in it entries of code for one architecture each. NVIDIA documents none
// of it: read off what nvcc writes.
#pragma once
#include <stdint.h>

#define FATBIN_MAGIC 0xba55ed50u
// What nvcc embeds in host programs: points to the container.
#define FATBIN_WRAPPER_MAGIC 0x466243b1u
// Of separable compilation (nvcc -rdc=true): the container has the linked machine code, `modules` what it was linked from.
enum { FATBIN_WRAPPER_PLAIN = 1, FATBIN_WRAPPER_LINKED = 2 };

struct fatbin_wrapper {
	uint32_t magic, version;
	const void *data;
	const void *const *modules; // containers, ends with NULL; not used by FATBIN_WRAPPER_PLAIN
};

struct fatbin_container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; // of what follows the header
};

enum { FATBIN_PTX = 1, FATBIN_ELF = 2, FATBIN_LTOIR = 8 };

#define FATBIN_LZ4 0x2000u
#define FATBIN_ZSTD 0x8000u
// For one architecture alone, such as sm_90a. Families (sm_100f) have a flag of their own, and need none here.
#define FATBIN_SPECIFIC 0x100000u

struct fatbin_entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size; // stored, padding included
	uint32_t compressed_size;
	uint32_t options_offset;
	uint16_t minor, major;
	uint32_t architecture; // 90 for sm_90
	uint32_t name_offset, name_size;
	uint64_t flags;
	uint64_t reserved;
	uint64_t plain_size; // once decompressed
};
