#include "pager/handle_move.h"

#include "pager/blocks.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "pager/page.h"

// The vGPU's one device.
static const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

static CUresult set_access(CUdeviceptr address, size_t size, unsigned long long flags)
{
	const CUmemAccessDesc access = {.location = location, .flags = (CUmemAccess_flags)flags};

	return pager_driver.cuMemSetAccess(address, size, &access, 1);
}

static size_t chunk_size(const struct pager_handle *handle, size_t index)
{
	return pager_chunk_bytes(handle->size, index);
}

void pager_handles_take_host(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; pager_handle_can_leave(list[i]) && k < list[i]->chunk_count; k++)
			pager_room_take(&list[i]->rooms[k], chunk_size(list[i], k));
}

static CUresult close_window(struct pager_handle *handle)
{
	CUresult result = handle->window ? pager_driver.cuMemUnmap(handle->window, handle->size) : CUDA_SUCCESS;

	if (!handle->window || result != CUDA_SUCCESS)
		return result;
	pager_driver.cuMemAddressFree(handle->window, handle->size);
	handle->window = 0;
	return result;
}

// Maps the memory at addresses of the pager's own, for a copy.
static CUresult open_window(struct pager_handle *handle)
{
	CUdeviceptr window;
	CUresult result;

	if (handle->window) // it could not be closed
		return CUDA_SUCCESS;
	result = pager_driver.cuMemAddressReserve(&window, handle->size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = pager_driver.cuMemMap(window, handle->size, 0, handle->real, 0);
	if (result != CUDA_SUCCESS) {
		pager_driver.cuMemAddressFree(window, handle->size);
		return result;
	}
	handle->window = window;
	result = set_access(window, handle->size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (result != CUDA_SUCCESS)
		close_window(handle);
	return result;
}

// Finds an address for copies: where the program has all of the memory mapped and may write it, or else a window.
static CUresult find_address(struct pager_handle *handle, CUdeviceptr *ret_address)
{
	CUresult result;

	for (const struct pager_mapping *mapping = handle->mappings; mapping; mapping = mapping->next)
		if (mapping->is_mapped && mapping->size == handle->size &&
		    mapping->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
			*ret_address = mapping->address;
			return CUDA_SUCCESS;
		}
	result = open_window(handle);
	*ret_address = handle->window;
	return result;
}

static CUresult copy_chunks(struct pager_copies *copies, struct pager_handle *handle, CUdeviceptr address,
			    CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	CUresult result = CUDA_SUCCESS;

	for (size_t k = 0; k < handle->chunk_count && result == CUDA_SUCCESS; k++)
		result = pager_copies_add(copies, &(struct pager_copy){.address = address + k * PAGER_CHUNK,
								       .room = &handle->rooms[k],
								       .size = chunk_size(handle, k), .finish = finish,
								       .owner = handle, .index = k});
	return result;
}

// ---- to the host ---------------------------------------------------------------------------

void pager_handles_give_host(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++) {
		if (list[i]->is_away || !list[i]->real)
			continue;
		close_window(list[i]);
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			struct pager_room *room = &list[i]->rooms[k];
			room->is_copy &= room->changed == 0;
			if (!room->is_copy)
				pager_room_give(room, chunk_size(list[i], k));
		}
	}
}

static CUresult note_access(const struct pager_handle *handle)
{
	CUresult result = CUDA_SUCCESS;

	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next)
		if (mapping->is_mapped)
			result = pager_driver.cuMemGetAccess(&mapping->access, &location, mapping->address);
	return result;
}

// Unmaps and releases the memory.
static CUresult release(struct pager_handle *handle)
{
	CUresult result = close_window(handle);

	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next) {
		if (mapping->is_mapped)
			result = pager_driver.cuMemUnmap(mapping->address, mapping->size);
		mapping->is_mapped &= result != CUDA_SUCCESS;
	}
	if (result == CUDA_SUCCESS && handle->real)
		result = pager_driver.cuMemRelease(handle->real);
	if (result == CUDA_SUCCESS)
		handle->real = 0;
	return result;
}

static bool leaves(const struct pager_handle *handle)
{
	return handle->real && !handle->is_away && pager_handle_can_leave(handle);
}

CUresult pager_handles_begin(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!leaves(list[i]))
			continue;
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			pager_room_begin(&list[i]->rooms[k], chunk_size(list[i], k));
		result = note_access(list[i]);
	}
	return result;
}

static CUresult hash(struct pager_handle *handle)
{
	CUdeviceptr address;
	CUresult result = find_address(handle, &address);

	for (size_t k = 0; k < handle->chunk_count && result == CUDA_SUCCESS; k++)
		result = pager_blocks_add(address + k * PAGER_CHUNK, chunk_size(handle, k), &handle->rooms[k]);
	return result;
}

CUresult pager_handles_hash(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (leaves(list[i]))
			result = hash(list[i]);
	return result;
}

static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_handle *handle = copy->owner;
	CUresult result;

	if (--handle->left > 0)
		return CUDA_SUCCESS;
	result = release(handle);
	if (result != CUDA_SUCCESS)
		return result;
	handle->is_away = true;
	for (size_t k = 0; k < handle->chunk_count; k++)
		handle->rooms[k].is_copy = handle->rooms[k].is_hashed;
	atomic_fetch_add(&slot->host, handle->size);
	return CUDA_SUCCESS;
}

CUresult pager_handles_begin_out(struct pager_copies *copies)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr address;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!leaves(list[i]))
			continue;
		list[i]->left = list[i]->chunk_count;
		result = find_address(list[i], &address);
		if (result == CUDA_SUCCESS)
			result = copy_chunks(copies, list[i], address, finish_out);
	}
	return result;
}

// ---- to the device -------------------------------------------------------------------------

static CUresult create(void *owner, size_t unused)
{
	struct pager_handle *handle = owner;
	CUmemGenericAllocationHandle real;
	CUresult result;

	(void)unused;
	if (handle->real)
		return CUDA_SUCCESS;
	result = pager_driver.cuMemCreate(&real, handle->size, &handle->properties, 0);
	if (result == CUDA_SUCCESS)
		handle->real = real;
	return result;
}

CUresult pager_handles_create(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = create(list[i], 0);
	return result;
}

uint64_t pager_handles_count_absent(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += list[i]->real ? 0 : list[i]->size;
	return bytes;
}

uint64_t pager_handles_count_away(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += list[i]->is_away ? list[i]->size : 0;
	return bytes;
}

CUresult pager_handles_release(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (list[i]->is_away)
			result = release(list[i]);
	return result;
}

static CUresult map_again(struct pager_mapping *mapping)
{
	CUresult result = pager_driver.cuMemMap(mapping->address, mapping->size, mapping->offset, mapping->handle->real, 0);

	if (result != CUDA_SUCCESS)
		return result;
	if (mapping->access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		result = set_access(mapping->address, mapping->size, mapping->access);
	mapping->is_mapped =
		result == CUDA_SUCCESS || pager_driver.cuMemUnmap(mapping->address, mapping->size) != CUDA_SUCCESS;
	return result;
}

static CUresult map_all(struct pager_handle *handle)
{
	CUresult result = CUDA_SUCCESS;

	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next)
		result = mapping->is_mapped ? CUDA_SUCCESS : map_again(mapping);
	return result;
}

static CUresult finish_in(const struct pager_copy *copy, struct pager_slot *slot)
{
	atomic_fetch_sub(&slot->host, copy->size);
	return CUDA_SUCCESS;
}

static CUresult bring(struct pager_copies *copies, struct pager_handle *handle, CUresult *ret_copied)
{
	CUresult result = pager_copies_create(copies, create, handle, 0);
	CUdeviceptr address;

	if (result == CUDA_SUCCESS)
		result = map_all(handle);
	if (result != CUDA_SUCCESS || !handle->is_away)
		return result;
	result = find_address(handle, &address);
	if (result == CUDA_SUCCESS)
		*ret_copied = copy_chunks(copies, handle, address, finish_in);
	return result;
}

CUresult pager_handles_bring(struct pager_copies *copies, CUresult *ret_copied)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS && *ret_copied == CUDA_SUCCESS; i++)
		result = bring(copies, list[i], ret_copied);
	return result;
}

CUresult pager_handles_note_return(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++) {
		CUresult closed = close_window(list[i]);
		result = result == CUDA_SUCCESS ? closed : result;
		list[i]->is_away = false;
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			if (!list[i]->rooms[k].is_copy)
				pager_room_give(&list[i]->rooms[k], chunk_size(list[i], k));
	}
	return result;
}
