#include "pager/handle_move.h"

#include "pager/host.h"
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

static bool is_in_host(const struct pager_handle *handle)
{
	return handle->rooms[handle->chunk_count - 1] != 0; // the last chunk is the last to come back
}

uint64_t pager_handles_take_host(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	uint64_t missing = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; pager_handle_can_leave(list[i]) && k < list[i]->chunk_count; k++) {
			if (!list[i]->rooms[k])
				list[i]->rooms[k] = pager_host_take(chunk_size(list[i], k));
			if (!list[i]->rooms[k])
				missing += chunk_size(list[i], k);
		}
	return missing;
}

static void give_host(struct pager_handle *handle, size_t index)
{
	if (handle->rooms[index])
		pager_host_give(handle->rooms[index], chunk_size(handle, index));
	handle->rooms[index] = 0;
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

static CUresult copy_chunks(struct pager_copies *copies, struct pager_handle *handle,
			    CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	CUdeviceptr address;
	CUresult result = find_address(handle, &address);

	for (size_t k = 0; k < handle->chunk_count && result == CUDA_SUCCESS; k++)
		result = pager_copies_add(copies, &(struct pager_copy){.address = address + k * PAGER_CHUNK,
								       .room = handle->rooms[k],
								       .size = chunk_size(handle, k), .finish = finish,
								       .owner = handle, .index = k});
	return result;
}

void pager_handles_give_host(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++) {
		if (!list[i]->real)
			continue;
		close_window(list[i]);
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			give_host(list[i], k);
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

static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_handle *handle = copy->owner;
	CUresult result;

	if (copy->index + 1 < handle->chunk_count)
		return CUDA_SUCCESS;
	result = release(handle);
	if (result == CUDA_SUCCESS)
		atomic_fetch_add(&slot->host, handle->size);
	return result;
}

CUresult pager_handles_begin_out(struct pager_copies *copies)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!list[i]->real || !pager_handle_can_leave(list[i]))
			continue;
		result = note_access(list[i]);
		if (result == CUDA_SUCCESS)
			result = copy_chunks(copies, list[i], finish_out);
	}
	return result;
}

CUresult pager_handles_create(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUmemGenericAllocationHandle real;
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (list[i]->real)
			continue;
		result = pager_driver.cuMemCreate(&real, list[i]->size, &list[i]->properties, 0);
		list[i]->real = result == CUDA_SUCCESS ? real : 0;
	}
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

CUresult pager_handles_release(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (is_in_host(list[i]))
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

CUresult pager_handles_map(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr address;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		for (struct pager_mapping *mapping = list[i]->mappings; mapping && result == CUDA_SUCCESS;
		     mapping = mapping->next)
			result = mapping->is_mapped ? CUDA_SUCCESS : map_again(mapping);
		if (result == CUDA_SUCCESS && is_in_host(list[i]))
			result = find_address(list[i], &address);
	}
	return result;
}

static CUresult finish_in(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_handle *handle = copy->owner;

	give_host(handle, copy->index);
	atomic_fetch_sub(&slot->host, copy->size);
	return copy->index + 1 == handle->chunk_count ? close_window(handle) : CUDA_SUCCESS;
}

CUresult pager_handles_begin_in(struct pager_copies *copies)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (is_in_host(list[i]))
			result = copy_chunks(copies, list[i], finish_in);
	return result;
}
