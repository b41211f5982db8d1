// Declares the table of the driver's functions that the exports call. cuda_exports.S defines it as shim_slots. Any
// thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_abi.h"

#define SHIM_HIDDEN __attribute__((visibility("hidden")))
#define SHIM_EXPORT __attribute__((visibility("default")))

// The rows of entries.def, followed by the rows of driver functions whose type is not declared.
enum shim_row {
	SHIM_ROW_LAST_TYPED = VG_ENTRY_COUNT - 1,
#define OPAQUE(abi) SHIM_ROW_##abi,
#include "abi/entries.def"
	SHIM_ROW_COUNT
};

extern SHIM_HIDDEN void *shim_slots[SHIM_ROW_COUNT];

// Yields the driver's function of a row of entries.def. Before the driver is loaded, yields a stub that loads the
// driver.
#define REAL(abi) ((__typeof__(&abi))__atomic_load_n(&shim_slots[VG_ENTRY_##abi], __ATOMIC_RELAXED))

struct shim_entry {
	const char *abi;
	const char *api;
	int version;
	char stream; // stream variant: 'p' plain, 'd' ptds, 's' ptsz
	const char *family;
};

const struct shim_entry *shim_entry(enum vg_entry entry);
// Returns the function that this library exports for a row: a definition in C, or else a jump to the driver.
void *shim_export(unsigned int row);
// Loads the driver if it is not loaded yet. Returns false if no driver was found.
bool shim_driver_loaded(void);
// Returns true if the driver exports the function of the row.
bool shim_driver_has(unsigned int row);
// Finds the next row whose driver function is at `address`. Set *cursor to 0 before the first call; each call stores
// there how far it got. Returns false if there is no further row.
bool shim_next_row_at(const void *address, unsigned int *cursor, unsigned int *ret_row);
