#include "pager/handle_move.h"

#include "pager/blocks.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "pager/page.h"

// Calls a function for each handle, until one fails.
static CUresult for_each_handle(CUresult (*act)(struct pager_handle *))
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++) {
		CUresult result = act(list[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

static size_t chunk_size(const struct pager_handle *handle, size_t index)
{
	return pager_chunk_bytes(handle->size, index);
}

static CUresult unmap_own(struct pager_handle *handle)
{
	if (!handle->own_address)
		return CUDA_SUCCESS;
	CUresult result = pager_driver.cuMemUnmap(handle->own_address, handle->size);
	if (result != CUDA_SUCCESS)
		return result;
	pager_driver.cuMemAddressFree(handle->own_address, handle->size);
	handle->own_address = 0;
	return CUDA_SUCCESS;
}

// Maps the memory at addresses that the pager reserves for a copy.
static CUresult map_own(struct pager_handle *handle)
{
	CUdeviceptr address;

	if (handle->own_address) // an earlier call could not unmap it, so it is still mapped
		return CUDA_SUCCESS;
	CUresult result = pager_driver.cuMemAddressReserve(&address, handle->size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = pager_driver.cuMemMap(address, handle->size, 0, handle->real, 0);
	if (result != CUDA_SUCCESS) {
		pager_driver.cuMemAddressFree(address, handle->size);
		return result;
	}
	handle->own_address = address;
	result = pager_set_access(address, handle->size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (result != CUDA_SUCCESS)
		unmap_own(handle);
	return result;
}

// Finds an address for copies. If the program has mapped all of the memory at one address with write access, returns
// that address. Otherwise maps the memory at an address of the pager's own.
static CUresult find_address(struct pager_handle *handle, CUdeviceptr *ret_address)
{
	for (const struct pager_mapping *mapping = handle->mappings; mapping; mapping = mapping->next)
		if (mapping->is_mapped && mapping->size == handle->size &&
		    mapping->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
			*ret_address = mapping->address;
			return CUDA_SUCCESS;
		}
	CUresult result = map_own(handle);
	if (result == CUDA_SUCCESS)
		*ret_address = handle->own_address;
	return result;
}

static CUresult copy_chunks(struct pager_copies *copies, struct pager_handle *handle, CUdeviceptr address,
			    CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	CUresult result = CUDA_SUCCESS;

	for (size_t k = 0; k < handle->chunk_count && result == CUDA_SUCCESS; k++)
		result = pager_copies_add(copies, &(struct pager_copy){.address = address + k * PAGER_CHUNK,
								       .room = &handle->rooms[k],
								       .size = chunk_size(handle, k),
								       .finish = finish,
								       .owner = handle,
								       .index = k});
	return result;
}

// Unmaps the memory from all of its addresses, and releases it.
static CUresult release_memory(struct pager_handle *handle)
{
	CUresult result = unmap_own(handle);

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

// ---- to the host ---------------------------------------------------------------------------

static CUresult take_rooms(struct pager_handle *handle)
{
	for (size_t k = 0; pager_handle_can_leave(handle) && k < handle->chunk_count; k++)
		pager_room_take(&handle->rooms[k], chunk_size(handle, k));
	return CUDA_SUCCESS;
}

void pager_handles_take_host(void)
{
	for_each_handle(take_rooms);
}

static CUresult give_rooms_back(struct pager_handle *handle)
{
	if (handle->is_away || !handle->real)
		return CUDA_SUCCESS;
	unmap_own(handle);
	for (size_t k = 0; k < handle->chunk_count; k++) {
		struct pager_room *room = &handle->rooms[k];
		room->is_copy &= room->changed == 0;
		if (!room->is_copy)
			pager_room_give(room, chunk_size(handle, k));
	}
	return CUDA_SUCCESS;
}

void pager_handles_give_host(void)
{
	for_each_handle(give_rooms_back);
}

static bool is_to_move_out(const struct pager_handle *handle)
{
	return handle->real && !handle->is_away && pager_handle_can_leave(handle);
}

// Prepares the move to the host: marks all blocks as changed, and stores the access rights of the mappings, with which
// the memory is mapped again later.
static CUresult begin_out(struct pager_handle *handle)
{
	CUresult result = CUDA_SUCCESS;

	if (!is_to_move_out(handle))
		return CUDA_SUCCESS;
	for (size_t k = 0; k < handle->chunk_count; k++)
		pager_room_begin(&handle->rooms[k], chunk_size(handle, k));
	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next)
		if (mapping->is_mapped)
			result = pager_driver.cuMemGetAccess(&mapping->access, &pager_location, mapping->address);
	return result;
}

CUresult pager_handles_begin(void)
{
	return for_each_handle(begin_out);
}

static CUresult hash_chunks(struct pager_handle *handle)
{
	CUdeviceptr address;

	if (!is_to_move_out(handle))
		return CUDA_SUCCESS;
	CUresult result = find_address(handle, &address);
	for (size_t k = 0; k < handle->chunk_count && result == CUDA_SUCCESS; k++)
		result = pager_blocks_add(address + k * PAGER_CHUNK, chunk_size(handle, k), &handle->rooms[k]);
	return result;
}

CUresult pager_handles_hash(void)
{
	return for_each_handle(hash_chunks);
}

static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_handle *handle = copy->owner;

	if (--handle->left > 0)
		return CUDA_SUCCESS;
	CUresult result = release_memory(handle);
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
		if (!is_to_move_out(list[i]))
			continue;
		list[i]->left = list[i]->chunk_count;
		result = find_address(list[i], &address);
		if (result == CUDA_SUCCESS)
			result = copy_chunks(copies, list[i], address, finish_out);
	}
	return result;
}

// ---- to the device -------------------------------------------------------------------------

static CUresult create_memory(struct pager_handle *handle)
{
	CUmemGenericAllocationHandle real;

	if (handle->real)
		return CUDA_SUCCESS;
	CUresult result = pager_driver.cuMemCreate(&real, handle->size, &handle->properties, 0);
	if (result == CUDA_SUCCESS)
		handle->real = real;
	return result;
}

CUresult pager_handles_create(void)
{
	return for_each_handle(create_memory);
}

void pager_handles_list(void (*list)(const struct pager_room *room, size_t size))
{
	size_t count;
	struct pager_handle **handles = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; handles[i]->is_away && k < handles[i]->chunk_count; k++)
			list(&handles[i]->rooms[k], chunk_size(handles[i], k));
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

static CUresult release_if_away(struct pager_handle *handle)
{
	return handle->is_away ? release_memory(handle) : CUDA_SUCCESS;
}

CUresult pager_handles_release(void)
{
	return for_each_handle(release_if_away);
}

static CUresult map_again(struct pager_mapping *mapping)
{
	CUresult result =
		pager_driver.cuMemMap(mapping->address, mapping->size, mapping->offset, mapping->handle->real, 0);

	if (result != CUDA_SUCCESS)
		return result;
	if (mapping->access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		result = pager_set_access(mapping->address, mapping->size, (CUmemAccess_flags)mapping->access);
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

static CUresult create_for_copy(void *handle, size_t unused)
{
	(void)unused;
	return create_memory(handle);
}

static CUresult move_in(struct pager_copies *copies, struct pager_handle *handle, CUresult *ret_copied)
{
	CUresult result = pager_copies_create(copies, create_for_copy, handle, 0);
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
		result = move_in(copies, list[i], ret_copied);
	return result;
}

CUresult pager_handles_note_return(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++) {
		CUresult closed = unmap_own(list[i]);
		result = result == CUDA_SUCCESS ? closed : result;
		list[i]->is_away = false;
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			if (!list[i]->rooms[k].is_copy)
				pager_room_give(&list[i]->rooms[k], chunk_size(list[i], k));
	}
	return result;
}
