#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "shim/entries.h"
#include "shim/real.h"

extern const int32_t shim_exports[SHIM_ROW_COUNT] SHIM_HIDDEN;
void *shim_resolve(uint64_t row) SHIM_HIDDEN;

static const struct shim_entry entries[VG_ENTRY_COUNT] = {
#define STREAM_plain 'p'
#define STREAM_ptds 'd'
#define STREAM_ptsz 's'
#define ENTRY(abi, api, version, stream, family, need) {#abi, #api, version, STREAM_##stream, #family},
#include "abi/entries.def"
};

static const char opaque_names[] =
#define OPAQUE(abi) #abi "\0"
#include "abi/entries.def"
	;

// Hash table from addresses of driver functions to rows of entries.def. Several rows may have the same address in a
// driver.
enum { ADDRESS_TABLE = 2048 };
_Static_assert(ADDRESS_TABLE >= 2 * SHIM_ROW_COUNT, "the address table is too full to search quickly");
static struct {
	const void *address;
	unsigned int row;
} addresses[ADDRESS_TABLE];

static bool present[SHIM_ROW_COUNT];
static bool loaded;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static CUresult answer_no_driver(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult answer_not_supported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

const struct shim_entry *shim_entry(enum vg_entry entry)
{
	return &entries[entry];
}

void *shim_export(unsigned int row)
{
	return (char *)shim_exports + shim_exports[row];
}

static unsigned int hash_address(const void *address)
{
	return (unsigned int)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15ull >> 53) % ADDRESS_TABLE;
}

static void remember_address(const void *address, unsigned int row)
{
	unsigned int i = hash_address(address);

	while (addresses[i].address)
		i = (i + 1) % ADDRESS_TABLE;
	addresses[i].address = address;
	addresses[i].row = row;
}

static void fill_slot(void *driver, unsigned int row, const char *name)
{
	void *address = driver ? dlsym(driver, name) : NULL;
	void *target = address;

	if (address) {
		present[row] = true;
		remember_address(address, row);
	} else {
		target = driver ? (void *)answer_not_supported : (void *)answer_no_driver;
	}
	__atomic_store_n(&shim_slots[row], target, __ATOMIC_RELEASE);
}

static void load_driver(void)
{
	void *driver = shim_real_load("libcuda.so.1", "VIRGATE_DRIVER");
	const char *name = opaque_names;

	for (unsigned int row = 0; row < VG_ENTRY_COUNT; row++)
		fill_slot(driver, row, entries[row].abi);
	for (unsigned int row = VG_ENTRY_COUNT; row < SHIM_ROW_COUNT; row++, name += strlen(name) + 1)
		fill_slot(driver, row, name);
	loaded = driver != NULL;
}

bool shim_driver_loaded(void)
{
	pthread_once(&load_once, load_driver);
	return loaded;
}

bool shim_driver_has(unsigned int row)
{
	return shim_driver_loaded() && present[row];
}

void *shim_resolve(uint64_t row)
{
	pthread_once(&load_once, load_driver);
	return __atomic_load_n(&shim_slots[row], __ATOMIC_RELAXED);
}

bool shim_next_row_at(const void *address, unsigned int *cursor, unsigned int *ret_row)
{
	unsigned int start = hash_address(address);

	if (!shim_driver_loaded() || !address)
		return false;
	for (unsigned int step = *cursor; step < ADDRESS_TABLE; step++) {
		unsigned int i = (start + step) % ADDRESS_TABLE;
		if (!addresses[i].address)
			return false;
		if (addresses[i].address == address) {
			*cursor = step + 1;
			*ret_row = addresses[i].row;
			return true;
		}
	}
	return false;
}
