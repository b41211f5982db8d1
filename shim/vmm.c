#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/undeclared.h"
#include "shim/vmm.h"

struct shim_physical {
	uint64_t bytes; // charged
	enum vg_ledger_kind kind;
	unsigned int holders; // handles + mappings + pins + descriptors (one for all) + calls on their way
	bool exported;	      // one of the holders is its descriptors
	bool binds;	      // a multicast object: pins of others are in its name
};

struct mapping {
	CUdeviceptr address;
	uint64_t size;
	struct shim_physical *physical;
};

struct pin {
	uint64_t owner, offset;
	struct shim_physical *physical;
	struct pin *next;
};

// Guards everything in this file, and handle records together with their physical memory.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings; // by address
static size_t mapping_count, mapping_capacity;
static struct pin *pins;
static uint64_t exported, adrift; // bytes: with descriptors, and with nothing but descriptors

static bool is_adrift(const struct shim_physical *physical)
{
	return physical->exported && physical->holders == 1;
}

// For every change of an exported one: who dies leaves to the daemon what its descriptors keep.
static void change_exported(struct shim_physical *physical, bool now, unsigned int holders)
{
	exported -= physical->exported ? physical->bytes : 0;
	adrift -= is_adrift(physical) ? physical->bytes : 0;
	physical->exported = now;
	physical->holders = holders;
	exported += physical->exported ? physical->bytes : 0;
	adrift += is_adrift(physical) ? physical->bytes : 0;
	if (shim_counting())
		vg_ledger_set_exported(shim_session_ledger(), exported, adrift);
}

static void set_holders(struct shim_physical *physical, unsigned int holders)
{
	if (physical->exported)
		change_exported(physical, true, holders);
	else
		physical->holders = holders;
}

static void unpin(uint64_t owner, bool all, uint64_t offset);

static void drop(struct shim_physical *physical, unsigned int count)
{
	if (!physical)
		return;
	set_holders(physical, physical->holders - count);
	if (physical->holders)
		return;
	if (physical->binds)
		unpin((uintptr_t)physical, true, 0);
	shim_refund(physical->kind, physical->bytes);
	free(physical);
}

static void drop_one(struct shim_physical *physical)
{
	pthread_mutex_lock(&lock);
	drop(physical, 1);
	pthread_mutex_unlock(&lock);
}

// With one holder more, for a call on its way. NULL: not ours to charge.
static struct shim_physical *hold(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;
	struct shim_physical *physical = NULL;

	pthread_mutex_lock(&lock);
	if (shim_record_find(SHIM_HANDLE, handle, &record)) {
		physical = record.data;
		set_holders(physical, physical->holders + 1);
	}
	pthread_mutex_unlock(&lock);
	return physical;
}

struct shim_physical *shim_physical_hold(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes)
{
	struct shim_physical *physical = hold(handle);

	if (physical)
		*ret_bytes = physical->bytes;
	return physical;
}

struct shim_physical *shim_physical_new(uint64_t bytes)
{
	struct shim_physical *physical = malloc(sizeof *physical);

	if (physical)
		*physical = (struct shim_physical){.bytes = bytes, .kind = VG_LEDGER_VMM, .holders = 1};
	return physical;
}

void shim_physical_drop(struct shim_physical *physical)
{
	drop_one(physical);
}

uint64_t shim_physical_return(struct shim_physical *physical)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	if (physical->holders == 1) {
		bytes = physical->bytes;
		free(physical);
	} else {
		set_holders(physical, physical->holders - 1);
	}
	pthread_mutex_unlock(&lock);
	return bytes;
}

struct shim_physical *shim_physical_lend(CUdeviceptr address, uint64_t *ret_bytes)
{
	struct shim_physical *physical = NULL;
	struct shim_record record;

	pthread_mutex_lock(&lock);
	if (shim_record_find(SHIM_POINTER, address, &record)) {
		if (record.origin == SHIM_LENT)
			physical = record.data;
		else if (record.origin == SHIM_ALLOCATED)
			physical = shim_physical_new(record.bytes);
	}
	if (physical && record.origin == SHIM_ALLOCATED) {
		physical->kind = record.kind;
		record.origin = SHIM_LENT;
		record.data = physical;
		record.bytes = 0;
		shim_record_put(&record); // in its place
	}
	if (physical) {
		set_holders(physical, physical->holders + 1);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&lock);
	return physical;
}

void shim_physical_exported(struct shim_physical *physical, bool now)
{
	pthread_mutex_lock(&lock);
	change_exported(physical, now, physical->holders);
	pthread_mutex_unlock(&lock);
}

static int add_handle(CUmemGenericAllocationHandle handle, struct shim_physical *physical)
{
	struct shim_record record = {.key = handle, .data = physical, .what = SHIM_HANDLE, .references = 1};

	return shim_record_put(&record);
}

// Stores what a successful create or import gave; the caller has charged `bytes`.
CUresult shim_physical_keep(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_physical *physical = malloc(sizeof *physical);
	int result = -1;

	if (physical) {
		*physical = (struct shim_physical){.bytes = bytes, .kind = kind, .holders = 1};
		pthread_mutex_lock(&lock);
		result = add_handle(handle, physical);
		pthread_mutex_unlock(&lock);
	}
	if (result == 0)
		return CUDA_SUCCESS;
	free(physical);
	REAL(cuMemRelease)(handle);
	shim_refund(kind, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_on_device(const CUmemAllocationProp *properties)
{
	return !properties || properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
	       properties->location.type == CU_MEM_LOCATION_TYPE_INVALID;
}

SHIM_EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
					 const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result;

	if (!shim_enforcing() || !is_on_device(properties))
		return REAL(cuMemCreate)(handle, size, properties, flags);
	result = shim_charge(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemCreate)(handle, size, properties, flags);
	if (result == CUDA_SUCCESS)
		return shim_physical_keep(*handle, VG_LEDGER_VMM, size);
	shim_refund(VG_LEDGER_VMM, size);
	return result;
}

// The driver may answer with a handle this process already has: one more reference to it.
static bool is_known(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;

	return shim_record_count(SHIM_HANDLE, handle, 1, &record);
}

// An import does not say its size: the smallest there is is charged now, and the rest when
// it is mapped, before which nobody can use it.
SHIM_EXPORT CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
							    CUmemAllocationHandleType type)
{
	const uint64_t least = 2ull << 20;
	CUmemAllocationProp properties;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	result = shim_charge(VG_ENTRY_cuMemImportFromShareableHandle, VG_LEDGER_IMPORT, least);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	if (result == CUDA_SUCCESS && !is_known(*handle)) {
		memset(&properties, 0, sizeof properties);
		if (REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, *handle) != CUDA_SUCCESS ||
		    is_on_device(&properties)) {
			shim_undeclared_doubt(); // never mapped, it may be more than the least
			return shim_physical_keep(*handle, VG_LEDGER_IMPORT, least);
		}
	}
	shim_refund(VG_LEDGER_IMPORT, least);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;
	struct shim_physical *physical = NULL;
	CUresult result;

	if (!shim_counting())
		return REAL(cuMemRelease)(handle);
	pthread_mutex_lock(&lock);
	if (shim_record_count(SHIM_HANDLE, handle, -1, &record))
		physical = record.data; // with its last handle, that handle's hold is ours to drop
	pthread_mutex_unlock(&lock);
	result = REAL(cuMemRelease)(handle);
	if (!physical) { // a multicast object, or host memory
		if (result == CUDA_SUCCESS)
			shim_unpin_all(handle);
		return result;
	}
	pthread_mutex_lock(&lock);
	if (result != CUDA_SUCCESS) {
		if (record.references == 0)
			add_handle(handle, physical);
		else
			shim_record_count(SHIM_HANDLE, handle, 1, &record);
	} else if (record.references == 0) {
		drop(physical, 1);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

// Index of the first mapping that ends behind `address`.
static size_t first_behind(CUdeviceptr address)
{
	size_t low = 0, high = mapping_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (mappings[middle].address + mappings[middle].size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int insert_mapping(const struct mapping *mapping)
{
	size_t at = first_behind(mapping->address);

	if (mapping_count == mapping_capacity) {
		size_t capacity = mapping_capacity ? mapping_capacity * 2 : 64;
		struct mapping *grown = realloc(mappings, capacity * sizeof *grown);
		if (!grown)
			return -1;
		mappings = grown;
		mapping_capacity = capacity;
	}
	memmove(&mappings[at + 1], &mappings[at], (mapping_count - at) * sizeof *mappings);
	mappings[at] = *mapping;
	mapping_count++;
	return 0;
}

static void resize(struct shim_physical *physical, uint64_t bytes)
{
	bool was = physical->exported;

	if (was)
		change_exported(physical, false, physical->holders);
	physical->bytes = bytes;
	if (was)
		change_exported(physical, true, physical->holders);
}

// An import that turns out to be larger than what was charged for it so far.
static CUresult charge_rest(struct shim_physical *physical, uint64_t size)
{
	uint64_t missing = 0;
	CUresult result;

	pthread_mutex_lock(&lock);
	if (physical->kind == VG_LEDGER_IMPORT && size > physical->bytes) {
		missing = size - physical->bytes;
		resize(physical, size);
	}
	pthread_mutex_unlock(&lock);
	if (!missing)
		return CUDA_SUCCESS;
	result = shim_charge(VG_ENTRY_cuMemMap, VG_LEDGER_IMPORT, missing);
	if (result == CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	resize(physical, physical->bytes - missing);
	pthread_mutex_unlock(&lock);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset,
				      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct shim_physical *physical = shim_counting() ? hold(handle) : NULL;
	struct mapping mapping = {address, size, physical};
	CUresult result;
	int stored;

	if (!physical)
		return REAL(cuMemMap)(address, size, offset, handle, flags);
	result = charge_rest(physical, size);
	if (result == CUDA_SUCCESS)
		result = REAL(cuMemMap)(address, size, offset, handle, flags);
	if (result != CUDA_SUCCESS) {
		drop_one(physical);
		return result;
	}
	pthread_mutex_lock(&lock);
	stored = insert_mapping(&mapping); // takes over our hold
	pthread_mutex_unlock(&lock);
	if (stored != 0) {
		REAL(cuMemUnmap)(address, size);
		drop_one(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

// Takes the mappings that begin inside a range; the caller frees the array.
static size_t take_mappings(CUdeviceptr address, size_t size, struct mapping **ret_taken)
{
	size_t first, last;

	pthread_mutex_lock(&lock);
	first = first_behind(address);
	for (last = first; last < mapping_count && mappings[last].address - address < size;)
		last++;
	*ret_taken = last > first ? malloc((last - first) * sizeof **ret_taken) : NULL;
	if (*ret_taken) {
		memcpy(*ret_taken, &mappings[first], (last - first) * sizeof **ret_taken);
		memmove(&mappings[first], &mappings[last], (mapping_count - last) * sizeof *mappings);
		mapping_count -= last - first;
	}
	pthread_mutex_unlock(&lock);
	return *ret_taken ? last - first : 0;
}

SHIM_EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size)
{
	struct mapping *taken = NULL;
	size_t count = shim_counting() ? take_mappings(address, size, &taken) : 0;
	CUresult result = REAL(cuMemUnmap)(address, size);

	if (!count)
		return result;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++) {
		if (result != CUDA_SUCCESS)
			insert_mapping(&taken[i]);
		else
			drop(taken[i].physical, 1);
	}
	pthread_mutex_unlock(&lock);
	free(taken);
	return result;
}

static struct shim_physical *physical_at(CUdeviceptr address)
{
	size_t at = first_behind(address);

	return at < mapping_count && mappings[at].address <= address ? mappings[at].physical : NULL;
}

struct shim_physical *shim_physical_hold_range(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes)
{
	struct shim_physical *physical = NULL;
	size_t at;

	pthread_mutex_lock(&lock);
	at = first_behind(address);
	if (at < mapping_count && mappings[at].address <= address &&
	    size <= mappings[at].size - (address - mappings[at].address))
		physical = mappings[at].physical;
	if (physical) {
		set_holders(physical, physical->holders + 1);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&lock);
	return physical;
}

SHIM_EXPORT CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
	struct shim_record record;
	struct shim_physical *physical;

	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	pthread_mutex_lock(&lock);
	physical = physical_at((CUdeviceptr)(uintptr_t)address);
	if (physical && !shim_record_count(SHIM_HANDLE, *handle, 1, &record) && add_handle(*handle, physical) == 0)
		set_holders(physical, physical->holders + 1);
	pthread_mutex_unlock(&lock);
	return result;
}

void shim_physical_pin(struct shim_physical *physical, uint64_t owner, uint64_t offset)
{
	struct pin *pin = malloc(sizeof *pin);

	if (!pin)
		return; // the hold stays: charged until the process ends
	*pin = (struct pin){owner, offset, physical, NULL};
	pthread_mutex_lock(&lock);
	pin->next = pins;
	pins = pin;
	pthread_mutex_unlock(&lock);
}

void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset)
{
	struct shim_physical *physical = hold(handle);

	if (physical)
		shim_physical_pin(physical, owner, offset);
}

void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset)
{
	struct shim_physical *physical;

	pthread_mutex_lock(&lock);
	physical = physical_at(address);
	if (physical)
		set_holders(physical, physical->holders + 1);
	pthread_mutex_unlock(&lock);
	if (physical)
		shim_physical_pin(physical, owner, offset);
}

// Under the lock.
static void unpin(uint64_t owner, bool all, uint64_t offset)
{
	for (struct pin **link = &pins; *link;) {
		struct pin *pin = *link;
		if (pin->owner != owner || (!all && pin->offset != offset)) {
			link = &pin->next;
			continue;
		}
		*link = pin->next;
		drop(pin->physical, 1);
		free(pin);
	}
}

uint64_t shim_binder(CUmemGenericAllocationHandle multicast)
{
	struct shim_record record;
	uint64_t owner = multicast;

	pthread_mutex_lock(&lock);
	if (shim_record_find(SHIM_HANDLE, multicast, &record)) {
		struct shim_physical *physical = record.data;
		physical->binds = true;
		owner = (uintptr_t)physical;
	}
	pthread_mutex_unlock(&lock);
	return owner;
}

void shim_unpin(uint64_t owner, uint64_t offset)
{
	pthread_mutex_lock(&lock);
	unpin(owner, false, offset);
	pthread_mutex_unlock(&lock);
}

void shim_unpin_all(uint64_t owner)
{
	pthread_mutex_lock(&lock);
	unpin(owner, true, 0);
	pthread_mutex_unlock(&lock);
}
