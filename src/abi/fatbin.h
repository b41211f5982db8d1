// The layout of a fat binary: a container with entries of code, each for one architecture. NVIDIA does not document it;
// this was derived from what nvcc writes.
#pragma once
#include <stdint.h>

#define FATBIN_MAGIC 0xba55ed50u
// The wrapper that nvcc embeds in host programs, which points to the container.
#define FATBIN_WRAPPER_MAGIC 0x466243b1u
// FATBIN_WRAPPER_LINKED: nvcc -rdc=true (separable compilation) wrote the wrapper. Its container has the linked machine
// code, and `modules` lists the containers of the object files.
enum { FATBIN_WRAPPER_PLAIN = 1, FATBIN_WRAPPER_LINKED = 2 };

struct fatbin_wrapper {
	uint32_t magic, version;
	const void *data;
	// Only in FATBIN_WRAPPER_LINKED: pointers to the object files' containers; NULL ends the list.
	const void *const *modules;
};

struct fatbin_container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; // size of the container without this header
};

enum { FATBIN_PTX = 1, FATBIN_ELF = 2, FATBIN_LTOIR = 8 };

#define FATBIN_LZ4 0x2000u
#define FATBIN_ZSTD 0x8000u
// This flag marks code that runs on only one architecture, such as sm_90a. Code for a family of architectures (sm_100f)
// has another flag, which this project does not use.
#define FATBIN_SPECIFIC 0x100000u

struct fatbin_entry {
	uint16_t kind, version;
	uint32_t header_size;
	uint64_t size; // size of the entry's data as stored, with padding
	uint32_t compressed_size;
	uint32_t options_offset;
	uint16_t minor, major;
	uint32_t architecture; // 90 for sm_90
	uint32_t name_offset, name_size;
	uint64_t flags;
	uint64_t reserved;
	uint64_t plain_size; // once decompressed
};
