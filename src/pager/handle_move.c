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

void pager_handles_take_host(uint64_t *missing)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; pager_handle_can_leave(list[i]) && k < list[i]->chunk_count; k++) {
			if (!list[i]->hosts[k])
				list[i]->hosts[k] = pager_host_take(chunk_size(list[i], k));
			if (!list[i]->hosts[k])
				*missing += chunk_size(list[i], k);
		}
}

static void give_host(struct pager_handle *handle, size_t index)
{
	if (handle->hosts[index])
		pager_host_give(handle->hosts[index], chunk_size(handle, index));
	handle->hosts[index] = NULL;
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
		if (mapping->size == handle->size && mapping->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
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
								       .host = handle->hosts[k],
								       .size = chunk_size(handle, k), .finish = finish,
								       .owner = handle, .index = k});
	return result;
}

void pager_handles_give_host(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++) {
		if (!list[i]->on_device)
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
		result = pager_driver.cuMemGetAccess(&mapping->access, &location, mapping->address);
	return result;
}

// After the last copy: unmaps and releases the memory.
static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_handle *handle = copy->owner;
	CUresult result;

	if (copy->index + 1 < handle->chunk_count)
		return CUDA_SUCCESS;
	result = close_window(handle);
	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next) {
		result = pager_driver.cuMemUnmap(mapping->address, mapping->size);
		mapping->is_mapped = result != CUDA_SUCCESS;
	}
	if (result != CUDA_SUCCESS)
		return result;
	handle->on_device = false;
	atomic_fetch_add(&slot->host, handle->size);
	return pager_driver.cuMemRelease(handle->real);
}

CUresult pager_handles_begin_out(struct pager_copies *copies)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!list[i]->on_device || !pager_handle_can_leave(list[i]))
			continue;
		result = note_access(list[i]);
		if (result == CUDA_SUCCESS)
			result = copy_chunks(copies, list[i], finish_out);
	}
	return result;
}

CUresult pager_handles_create(CUresult result, uint64_t *missing)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++) {
		struct pager_handle *handle = list[i];
		if (handle->on_device)
			continue;
		handle->real = 0;
		if (result == CUDA_SUCCESS)
			result = pager_driver.cuMemCreate(&handle->real, handle->size, &handle->properties, 0);
		if (result == CUDA_SUCCESS)
			continue;
		handle->real = 0;
		*missing += handle->size;
	}
	return result;
}

void pager_handles_uncreate(void)
{
	size_t count;
	struct pager_handle **list = pager_handle_list(&count);

	for (size_t i = 0; i < count; i++)
		if (!list[i]->on_device && list[i]->real) {
			pager_driver.cuMemRelease(list[i]->real);
			list[i]->real = 0;
		}
}

static CUresult map_again(const struct pager_handle *handle)
{
	CUresult result = CUDA_SUCCESS;

	for (struct pager_mapping *mapping = handle->mappings; mapping && result == CUDA_SUCCESS;
	     mapping = mapping->next) {
		if (mapping->is_mapped)
			continue;
		result = pager_driver.cuMemMap(mapping->address, mapping->size, mapping->offset, handle->real, 0);
		mapping->is_mapped = result == CUDA_SUCCESS;
		if (result == CUDA_SUCCESS && mapping->access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			result = set_access(mapping->address, mapping->size, mapping->access);
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

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		bool was_away = !list[i]->on_device;
		list[i]->on_device = true;
		result = map_again(list[i]);
		if (result == CUDA_SUCCESS && was_away)
			result = copy_chunks(copies, list[i], finish_in);
	}
	return result;
}
