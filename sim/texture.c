// Keeps the table of texture and surface objects. A handle is an index in the table. Kernels read the table without a
// lock.
#include <stdlib.h>

#include "context.h"
#include "texture.h"

enum { CHUNK = 256, CHUNKS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_texture *_Atomic chunks[CHUNKS];
static uint32_t used; // entries from this index on were never used
static struct sim_texture *free_list;
static struct sim_texture *ended; // destroyed objects that queued work may still read

static struct sim_texture *get_entry(uint32_t index)
{
	struct sim_texture *chunk = index / CHUNK < CHUNKS ? atomic_load(&chunks[index / CHUNK]) : NULL;

	return chunk ? &chunk[index % CHUNK] : NULL;
}

// Makes the entries of destroyed objects free again. Does nothing if a stream has work, because the work may read these
// entries.
static void reclaim_ended(void)
{
	pthread_mutex_lock(&lock);
	struct sim_texture *candidates = free_list ? NULL : ended;
	if (candidates)
		ended = NULL;
	pthread_mutex_unlock(&lock);
	if (!candidates)
		return;
	bool pending =
		// Call this without the lock: it takes locks that another thread may hold while it ends a context.
		sim_has_pending_work();
	pthread_mutex_lock(&lock);
	struct sim_texture **list = pending ? &ended : &free_list;
	for (struct sim_texture *texture = candidates, *next; texture; texture = next) {
		next = texture->next_free;
		texture->next_free = *list;
		*list = texture;
	}
	pthread_mutex_unlock(&lock);
}

static struct sim_texture *get_free_entry(void)
{
	struct sim_texture *texture = free_list;

	if (texture) {
		free_list = texture->next_free;
		return texture;
	}
	if (used == CHUNK * CHUNKS)
		return NULL;
	if (used % CHUNK == 0) {
		struct sim_texture *chunk = calloc(CHUNK, sizeof *chunk);
		if (!chunk)
			return NULL;
		atomic_store(&chunks[used / CHUNK], chunk);
	}
	texture = get_entry(used++);
	texture->handle = used;
	return texture;
}

CUresult sim_texture_create(struct sim_context *context, const struct sim_texture_description *description,
			    struct sim_texture **ret_texture)
{
	struct ptx_texture seen;

	SIM_TRY(sim_texture_read(description, &seen));
	reclaim_ended();
	pthread_mutex_lock(&lock);
	struct sim_texture *texture = get_free_entry();
	if (texture) {
		texture->seen = seen;
		texture->description = *description;
		texture->context = context->parent;
		atomic_store(&texture->is_live, true);
		atomic_store(&texture->is_visible, true);
	}
	pthread_mutex_unlock(&lock);
	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_texture = texture;
	return CUDA_SUCCESS;
}

// Makes a texture or surface object invalid, and keeps its memory for the next one. Call it with the lock held.
static void end_texture(struct sim_texture *texture)
{
	atomic_store(&texture->is_live, false);
	texture->next_free = ended;
	ended = texture;
}

void sim_texture_destroy(struct sim_texture *texture)
{
	pthread_mutex_lock(&lock);
	if (atomic_load(&texture->is_live))
		end_texture(texture);
	pthread_mutex_unlock(&lock);
}

void sim_texture_context_finish(struct sim_context *context)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < used; i++) {
		struct sim_texture *texture = get_entry(i);
		if (texture->context != context)
			continue;
		atomic_store(&texture->is_visible, false);
		if (atomic_load(&texture->is_live))
			end_texture(texture);
	}
	pthread_mutex_unlock(&lock);
}

void sim_textures_refresh(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < used; i++) {
		struct sim_texture *texture = get_entry(i);
		struct ptx_texture seen;
		if (atomic_load(&texture->is_live) && sim_texture_read(&texture->description, &seen) == CUDA_SUCCESS &&
		    memcmp(&texture->seen, &seen, sizeof seen) != 0)
			texture->seen = seen;
	}
	pthread_mutex_unlock(&lock);
}

void sim_textures_forget(const struct ptx_tiles *tiles, unsigned count)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < used; i++) {
		struct ptx_texture *seen = &get_entry(i)->seen;
		for (uint32_t k = 0; k < seen->level_count; k++)
			if (seen->levels[k].tiles >= tiles && seen->levels[k].tiles < tiles + count)
				seen->levels[k] = (struct ptx_image){.width = 1, .height = 1, .depth = 1};
	}
	pthread_mutex_unlock(&lock);
}

static struct sim_texture *find_entry(unsigned long long handle)
{
	return handle && handle <= CHUNK * CHUNKS ? get_entry((uint32_t)handle - 1) : NULL;
}

struct sim_texture *sim_texture_get(unsigned long long handle)
{
	struct sim_texture *texture = find_entry(handle);

	return texture && atomic_load_explicit(&texture->is_live, memory_order_acquire) ? texture : NULL;
}

const struct ptx_texture *sim_texture_find(uint64_t handle)
{
	const struct sim_texture *texture = find_entry(handle);

	return texture && atomic_load_explicit(&texture->is_visible, memory_order_acquire) ? &texture->seen : NULL;
}
