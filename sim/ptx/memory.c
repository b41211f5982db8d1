// Translates device addresses to host addresses: device memory with its permissions, and the windows of shared, local
// and parameter memory. Adjacent addresses of a warp's lanes are translated at once.
#include "sim/ptx/engine.h"

enum { READ = 1, WRITE = 2 };

static bool is_permitted(const struct ptx_space *space, uint64_t offset, size_t length, uint8_t wanted)
{
	uint64_t last = (offset + length - 1) >> space->granule_shift;

	for (uint64_t granule = offset >> space->granule_shift; granule <= last; granule++)
		if (!(__atomic_load_n(&space->permission[granule], __ATOMIC_RELAXED) & wanted))
			return false;
	return true;
}

static inline uint8_t *device_address(struct ptx_warp *warp, uint64_t address, size_t length, bool write)
{
	const struct ptx_space *space = &warp->worker->run->space;
	uint64_t offset = address - space->base;

	if (offset < space->size && length <= space->size - offset) {
		if (!is_permitted(space, offset, length, write ? WRITE : READ))
			return NULL;
		return (uint8_t *)(uintptr_t)address + space->offset;
	}
	if (address < PTX_WINDOW_FIRST && space->other) {
		warp->worker->has_used_host_memory = true;
		return space->other(space->context, address, length, write);
	}
	return NULL;
}

static inline uint8_t *shared_address(struct ptx_warp *warp, uint64_t address, size_t length)
{
	uint32_t size = warp->worker->run->shared_size;

	if (address < size && length <= size - address)
		return warp->block->shared + address;
	return address >> PTX_CLUSTER_SHIFT ? ptx_cluster_address(warp, address, length) : NULL;
}

static inline uint8_t *local_address(struct ptx_warp *warp, unsigned lane, uint64_t address, size_t length)
{
	uint32_t size = warp->worker->run->local_bytes;

	if (address >= size || length > size - address)
		return NULL;
	return warp->local + lane * warp->worker->run->local_stride + address;
}

static uint8_t *parameter_address(struct ptx_warp *warp, uint64_t address, size_t length, bool write)
{
	size_t size = warp->worker->run->function->info.parameter_bytes;

	if (write || address >= size || length > size - address)
		return NULL;
	return (uint8_t *)warp->worker->run->parameters + address;
}

void *ptx_address_try(struct ptx_warp *warp, unsigned lane, uint64_t address, size_t length, bool write)
{
	if (address >= PTX_WINDOW_FIRST && address < PTX_WINDOW_END) {
		switch ((address - PTX_WINDOW_FIRST) >> 32) {
		case 0:
			return shared_address(warp, address - PTX_SHARED_WINDOW, length);
		case 1:
			return local_address(warp, lane, address - PTX_LOCAL_WINDOW, length);
		case 2:
			return parameter_address(warp, address - PTX_PARAM_WINDOW, length, write);
		default:
			return NULL;
		}
	}
	return device_address(warp, address, length, write);
}

void *ptx_address(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address, size_t length,
		  bool write)
{
	if (address & (length - 1) && (length & (length - 1)) == 0) {
		ptx_fault(warp, op, lane, PTX_FAULT_MISALIGNED, address, "misaligned %s of %zu bytes at 0x%llx",
			  write ? "store" : "load", length, (unsigned long long)address);
		return NULL;
	}
	void *host = ptx_address_try(warp, lane, address, length, write);
	if (!host) {
		bool in_window = address >= PTX_WINDOW_FIRST && address < PTX_WINDOW_END;
		ptx_fault(warp, op, lane, in_window ? PTX_FAULT_SHARED_RANGE : PTX_FAULT_ILLEGAL_ADDRESS, address,
			  "illegal %s of %zu bytes at 0x%llx%s", write ? "store" : "load", length,
			  (unsigned long long)address, in_window ? " (beyond shared, local or parameter memory)" : "");
	}
	return host;
}

// Returns a lane's address, which is an offset unless the state space is the generic one.
static inline uint64_t lane_address(const struct ptx_warp *warp, const struct ptx_memory_op *memory,
				    const struct ptx_op *op, unsigned lane)
{
	return memory->address_bits == 64 ? ptx_operand64(warp, op->a)[lane] + (uint64_t)memory->offset
					  : (uint32_t)(ptx_operand32(warp, op->a)[lane] + (uint32_t)memory->offset);
}

// Translates the address of each lane with all checks. `window` is the start of the state space's window. 0: the
// addresses are generic.
static bool resolve_each(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access, uint64_t window)
{
	const struct ptx_memory_op *memory = op->data;
	size_t length = (size_t)memory->bytes * memory->count;

	access->base = NULL;
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t address = lane_address(warp, memory, op, lane);
		// An offset beyond the window must not become an address of another window.
		if (window)
			address = address >> 32 ? UINT64_MAX & ~(uint64_t)(length - 1) : window + address;
		access->host[lane] = ptx_address(warp, op, lane, address, length, memory->write);
		if (!access->host[lane])
			return false;
	}
	return true;
}

// Translates device addresses that are not adjacent. An aligned element is always inside one granule.
static bool resolve_scattered(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access)
{
	const struct ptx_memory_op *memory = op->data;
	const struct ptx_space *space = &warp->worker->run->space;
	uint64_t length = (uint64_t)memory->bytes * memory->count, add = (uint64_t)memory->offset - space->base;
	const uint64_t *addresses = ptx_operand64(warp, op->a);
	uint8_t *host = (uint8_t *)(uintptr_t)space->base + space->offset;
	uint8_t wanted = memory->write ? WRITE : READ;
	uint64_t bad = 0;

	if (space->size < length)
		return resolve_each(warp, op, access, 0);
	access->base = NULL;
	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t offset = addresses[lane] + add;
		bool outside = offset > space->size - length;
		offset = outside ? 0 : offset;
		uint8_t granted = __atomic_load_n(&space->permission[offset >> space->granule_shift], __ATOMIC_RELAXED);
		bad |= outside | ((addresses[lane] + (uint64_t)memory->offset) & (length - 1)) | !(granted & wanted);
		access->host[lane] = host + offset;
	}
	// resolve_each() also translates addresses outside device memory, and reports the first fault.
	return !bad || resolve_each(warp, op, access, 0);
}

// Translates device addresses. If the 32 elements are adjacent, checks the permissions once for all.
static bool resolve_device(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access)
{
	const struct ptx_memory_op *memory = op->data;
	uint64_t length = (uint64_t)memory->bytes * memory->count;

	if (memory->address_bits != 64)
		return resolve_each(warp, op, access, 0);
	if (warp->mask != UINT32_MAX)
		return resolve_scattered(warp, op, access);
	const uint64_t *addresses = ptx_operand64(warp, op->a);
	uint64_t first = addresses[0], gaps = 0, differs = 0;
	for (unsigned lane = 0; lane < PTX_LANES; lane++) {
		gaps |= addresses[lane] - first - lane * length;
		differs |= addresses[lane] ^ first;
	}
	first += (uint64_t)memory->offset;
	if ((gaps && differs) || first & (length - 1) || first >= PTX_WINDOW_FIRST)
		return resolve_scattered(warp, op, access);
	access->base = device_address(warp, first, gaps ? length : length * PTX_LANES, memory->write);
	access->stride = gaps ? 0 : (ptrdiff_t)length;
	return access->base || resolve_each(warp, op, access, 0);
}

// Translates offsets in shared memory. An offset is valid if neither `offset` nor `last - offset` is negative. The
// signs of all lanes are combined, so that compilers vectorize the loop.
#define RESOLVE_SHARED(type)                                                                                       \
	static inline bool resolve_shared_##type(const type *restrict addresses, type add, type length, type size, \
						 uint8_t *shared, uint32_t mask, uint8_t **restrict host)          \
	{                                                                                                          \
		type signs = 0, bits = 0, last = size - length;                                                    \
		if (mask == UINT32_MAX) {                                                                          \
			for (unsigned lane = 0; lane < PTX_LANES; lane++) {                                        \
				type offset = addresses[lane] + add;                                               \
				signs |= offset | (last - offset);                                                 \
				bits |= offset;                                                                    \
				host[lane] = shared + offset;                                                      \
			}                                                                                          \
		} else {                                                                                           \
			PTX_FOR_LANES(lane, mask)                                                                  \
			{                                                                                          \
				type offset = addresses[lane] + add;                                               \
				signs |= offset | (last - offset);                                                 \
				bits |= offset;                                                                    \
				host[lane] = shared + offset;                                                      \
			}                                                                                          \
		}                                                                                                  \
		return !(signs >> (8 * sizeof(type) - 1)) && !(bits & (length - 1));                               \
	}
RESOLVE_SHARED(uint32_t)
RESOLVE_SHARED(uint64_t)

// nvcc uses addresses of 32 bits for shared memory, clang uses 64 bits.
static bool resolve_shared(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access)
{
	const struct ptx_memory_op *memory = op->data;
	uint32_t length = (uint32_t)memory->bytes * memory->count, size = warp->worker->run->shared_size;
	uint8_t *shared = warp->block->shared;
	bool is_inside = false;

	access->base = NULL;
	if (memory->address_bits == 32 && size >= length)
		is_inside = resolve_shared_uint32_t(ptx_operand32(warp, op->a), (uint32_t)memory->offset, length, size,
						    shared, warp->mask, access->host);
	else if (memory->address_bits == 64 && size >= length)
		is_inside = resolve_shared_uint64_t(ptx_operand64(warp, op->a), (uint64_t)memory->offset, length, size,
						    shared, warp->mask, access->host);
	return is_inside || resolve_each(warp, op, access, PTX_SHARED_WINDOW);
}

static bool resolve_local(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access)
{
	const struct ptx_memory_op *memory = op->data;
	uint64_t length = (uint64_t)memory->bytes * memory->count;
	uint64_t first = 0, differs = 0;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t address = lane_address(warp, memory, op, lane);
		first = lane == (unsigned)__builtin_ctz(warp->mask) ? address : first;
		differs |= address ^ first;
	}
	if (differs || first & (length - 1))
		return resolve_each(warp, op, access, PTX_LOCAL_WINDOW);
	access->base = local_address(warp, 0, first, length);
	access->stride = (ptrdiff_t)warp->worker->run->local_stride;
	return access->base || resolve_each(warp, op, access, PTX_LOCAL_WINDOW);
}

static bool resolve_parameter(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access)
{
	return resolve_each(warp, op, access, PTX_PARAM_WINDOW);
}

ptx_resolve_fn *ptx_resolver(enum ptx_space_kind space)
{
	switch (space) {
	case PTX_SPACE_SHARED:
		return resolve_shared;
	case PTX_SPACE_LOCAL:
		return resolve_local;
	case PTX_SPACE_PARAM:
		return resolve_parameter;
	default:
		return resolve_device;
	}
}

// The thread sanitizer must ignore these accesses. A data race here is a bug of the kernel, not of the interpreter.
#define DEVICE_RACES __attribute__((no_sanitize("thread")))

#define LOAD(name, memory_type, register_type)                                                                         \
	DEVICE_RACES static void name(uint8_t *lanes, const struct ptx_access *access, unsigned offset, uint32_t mask) \
	{                                                                                                              \
		register_type *d = (register_type *)lanes;                                                             \
		if (mask == UINT32_MAX && access->base && access->stride == sizeof(memory_type)) {                     \
			const memory_type *from = (const memory_type *)(access->base + offset);                        \
			for (unsigned lane = 0; lane < PTX_LANES; lane++)                                              \
				d[lane] = (register_type)from[lane];                                                   \
			return;                                                                                        \
		}                                                                                                      \
		if (mask == UINT32_MAX && !access->base) {                                                             \
			for (unsigned lane = 0; lane < PTX_LANES; lane++)                                              \
				d[lane] = (register_type) * (const memory_type *)(access->host[lane] + offset);        \
			return;                                                                                        \
		}                                                                                                      \
		PTX_FOR_LANES(lane, mask)                                                                              \
		d[lane] = (register_type) * (const memory_type *)(ptx_access_at(access, lane) + offset);               \
	}
#define STORE(name, memory_type, register_type)                                                                        \
	DEVICE_RACES static void name(uint8_t *lanes, const struct ptx_access *access, unsigned offset, uint32_t mask) \
	{                                                                                                              \
		const register_type *a = (const register_type *)lanes;                                                 \
		if (mask == UINT32_MAX && access->base && access->stride == sizeof(memory_type)) {                     \
			memory_type *to = (memory_type *)(access->base + offset);                                      \
			for (unsigned lane = 0; lane < PTX_LANES; lane++)                                              \
				to[lane] = (memory_type)a[lane];                                                       \
			return;                                                                                        \
		}                                                                                                      \
		PTX_FOR_LANES(lane, mask)                                                                              \
		*(memory_type *)(ptx_access_at(access, lane) + offset) = (memory_type)a[lane];                         \
	}
typedef unsigned __int128 uint128_t;
LOAD(load_8_16, uint8_t, uint16_t)
LOAD(load_8_32, uint8_t, uint32_t)
LOAD(load_8_64, uint8_t, uint64_t)
LOAD(load_s8_16, int8_t, uint16_t)
LOAD(load_s8_32, int8_t, uint32_t)
LOAD(load_s8_64, int8_t, uint64_t)
LOAD(load_16_16, uint16_t, uint16_t)
LOAD(load_16_32, uint16_t, uint32_t)
LOAD(load_16_64, uint16_t, uint64_t)
LOAD(load_s16_32, int16_t, uint32_t)
LOAD(load_s16_64, int16_t, uint64_t)
LOAD(load_32_32, uint32_t, uint32_t)
LOAD(load_32_64, uint32_t, uint64_t)
LOAD(load_s32_64, int32_t, uint64_t)
LOAD(load_64_64, uint64_t, uint64_t)
LOAD(load_128_128, uint128_t, uint128_t)
STORE(store_8_16, uint8_t, uint16_t)
STORE(store_8_32, uint8_t, uint32_t)
STORE(store_8_64, uint8_t, uint64_t)
STORE(store_16_16, uint16_t, uint16_t)
STORE(store_16_32, uint16_t, uint32_t)
STORE(store_16_64, uint16_t, uint64_t)
STORE(store_32_32, uint32_t, uint32_t)
STORE(store_32_64, uint32_t, uint64_t)
STORE(store_64_64, uint64_t, uint64_t)
STORE(store_128_128, uint128_t, uint128_t)

static unsigned width_index(unsigned bits)
{
	return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : 4;
}

ptx_move_fn *ptx_load_mover(unsigned bytes, unsigned register_bits, bool is_signed)
{
	static ptx_move_fn *const movers[2][5][5] = {
		{{NULL, load_8_16, load_8_32, load_8_64},
		 {NULL, load_16_16, load_16_32, load_16_64},
		 {NULL, NULL, load_32_32, load_32_64},
		 {NULL, NULL, NULL, load_64_64},
		 {[4] = load_128_128}},
		{{NULL, load_s8_16, load_s8_32, load_s8_64},
		 {NULL, load_16_16, load_s16_32, load_s16_64},
		 {NULL, NULL, load_32_32, load_s32_64},
		 {NULL, NULL, NULL, load_64_64},
		 {[4] = load_128_128}},
	};
	return movers[is_signed][width_index(bytes * 8)][width_index(register_bits)];
}

ptx_move_fn *ptx_store_mover(unsigned bytes, unsigned register_bits)
{
	static ptx_move_fn *const movers[5][5] = {
		{NULL, store_8_16, store_8_32, store_8_64},
		{NULL, store_16_16, store_16_32, store_16_64},
		{NULL, NULL, store_32_32, store_32_64},
		{NULL, NULL, NULL, store_64_64},
		{[4] = store_128_128},
	};
	return movers[width_index(bytes * 8)][width_index(register_bits)];
}

size_t ptx_copy_string(struct ptx_warp *warp, unsigned lane, uint64_t address, char *text, size_t capacity)
{
	size_t length = 0;
	const char *at;

	while (length + 1 < capacity && address && (at = ptx_address_try(warp, lane, address + length, 1, false)) &&
	       *at)
		text[length++] = *at;
	text[length] = 0;
	return length;
}
