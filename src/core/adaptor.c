// Implements memory resources that wrap another resource, and add a limit, statistics, a log or retries.
#include "base/log.h"
#include "base/mutex.h"
#include "base/size.h"
#include "core/resource.h"
#include "virgate/memory_adaptor.h"

#include <stdio.h>
#include <stdlib.h>

// Every adaptor has this structure as its first member.
struct adaptor {
	struct vg_memory_resource resource;
	struct vg_memory_resource *upstream; // owns a reference
};

static enum vg_status check_upstream_stream(struct vg_memory_resource *resource, struct vg_stream *stream)
{
	return core_resource_check(((struct adaptor *)resource)->upstream, stream);
}

static void free_adaptor(struct core_object *object)
{
	vg_memory_resource_destroy(((struct adaptor *)object)->upstream);
	free(object);
}

static enum vg_status create_adaptor(const struct core_resource_class *class, size_t size,
				     struct vg_memory_resource *upstream, struct adaptor **ret_adaptor)
{
	CORE_USABLE(upstream, "upstream");
	struct adaptor *adaptor = calloc(1, size);
	if (!adaptor)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a %s", class->object.name);
	core_object_init(&adaptor->resource.object, &class->object);
	adaptor->resource.properties = upstream->properties;
	adaptor->resource.needs_stream = upstream->needs_stream;
	// Because of this flag, vg_buffer_borrow() does not accept the adaptor for memory that the adaptor did not
	// allocate. The adaptor would count the freeing of such memory, but not its allocation.
	adaptor->resource.keeps_notes = true;
	adaptor->upstream = vg_memory_resource_retain(upstream);
	*ret_adaptor = adaptor;
	return VG_OK;
}

// Holds the error of a failed allocation while a callback runs. The callback may use the library and so set another
// error.
struct failure {
	enum vg_status status;
	int code;
	char text[1024];
};

static void keep_failure(struct failure *failure, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();

	failure->status = status;
	failure->code = status ? error->code : 0;
	snprintf(failure->text, sizeof failure->text, "%s", status ? error->text : "");
}

static enum vg_status restore_failure(const struct failure *failure)
{
	return failure->status ? vg_fail(failure->status, failure->code, "%s", failure->text) : VG_OK;
}

// ---- limiting -----------------------------------------------------------------------------------

struct limiting {
	struct adaptor adaptor;
	size_t limit;
	atomic_size_t used;
};

static bool try_charge(struct limiting *it, size_t size)
{
	size_t used = atomic_load(&it->used);

	do
		if (used > it->limit || size > it->limit - used)
			return false;
	while (!atomic_compare_exchange_weak(&it->used, &used, used + size));
	return true;
}

static enum vg_status fail_over_limit(struct limiting *it, size_t size)
{
	char asked[VG_SIZE_TEXT], used[VG_SIZE_TEXT], limit[VG_SIZE_TEXT];

	return vg_fail(VG_LIMIT, 0, "asked for %s, %s of this resource's %s are used", vg_size_format(size, asked),
		       vg_size_format(atomic_load(&it->used), used), vg_size_format(it->limit, limit));
}

static enum vg_status limiting_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					struct vg_allocation *ret_allocation)
{
	struct limiting *it = (struct limiting *)resource;
	struct vg_allocation allocation;

	if (!try_charge(it, size))
		return fail_over_limit(it, size);
	enum vg_status status = core_resource_allocate(it->adaptor.upstream, size, stream, &allocation);
	if (status) {
		atomic_fetch_sub(&it->used, size);
		return status;
	}
	// The upstream resource may have rounded up the size. Charge the difference too.
	if (!try_charge(it, allocation.size - size)) {
		core_resource_deallocate(it->adaptor.upstream, &allocation, stream);
		atomic_fetch_sub(&it->used, size);
		return fail_over_limit(it, allocation.size);
	}
	*ret_allocation = allocation;
	return VG_OK;
}

static enum vg_status limiting_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					  struct vg_stream *stream)
{
	struct limiting *it = (struct limiting *)resource;

	atomic_fetch_sub(&it->used, allocation->size);
	return core_resource_deallocate(it->adaptor.upstream, allocation, stream);
}

static const struct core_resource_class limiting_class = {.object = {"limiting resource", NULL, free_adaptor},
							  .check = check_upstream_stream,
							  .allocate = limiting_allocate,
							  .deallocate = limiting_deallocate};

enum vg_status vg_limiting_resource_create(struct vg_memory_resource *upstream, size_t limit,
					   struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct adaptor *adaptor;

	CORE_NEEDED(ret_resource);
	CORE_TRY(create_adaptor(&limiting_class, sizeof(struct limiting), upstream, &adaptor));
	((struct limiting *)adaptor)->limit = limit;
	*ret_resource = &adaptor->resource;
	return VG_OK;
}

enum vg_status vg_limiting_resource_used(const struct vg_memory_resource *resource, size_t *ret_used)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	CORE_NEEDED(ret_used);
	if (core_resource_class(resource) != &limiting_class)
		return vg_fail(VG_INVALID, 0, "a %s has no limit", vg_memory_resource_name(resource));
	*ret_used = atomic_load(&((const struct limiting *)resource)->used);
	return VG_OK;
}

// ---- statistics ---------------------------------------------------------------------------------

struct statistics {
	struct adaptor adaptor;
	struct vg_mutex lock;
	struct vg_memory_statistics figures; // protected by `lock`
};

static void count_amount(uint64_t add, uint64_t *current, uint64_t *peak, uint64_t *total)
{
	*current += add;
	*total += add;
	if (*current > *peak)
		*peak = *current;
}

static enum vg_status statistics_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					  struct vg_allocation *ret_allocation)
{
	struct statistics *it = (struct statistics *)resource;
	struct vg_memory_statistics *f = &it->figures;

	enum vg_status status = core_resource_allocate(it->adaptor.upstream, size, stream, ret_allocation);
	vg_mutex_lock(&it->lock);
	if (status) {
		f->failures++;
	} else {
		count_amount(ret_allocation->size, &f->bytes, &f->peak_bytes, &f->total_bytes);
		count_amount(1, &f->buffers, &f->peak_buffers, &f->total_buffers);
	}
	vg_mutex_unlock(&it->lock);
	return status;
}

static enum vg_status statistics_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					    struct vg_stream *stream)
{
	struct statistics *it = (struct statistics *)resource;

	vg_mutex_lock(&it->lock);
	it->figures.bytes -= allocation->size;
	it->figures.buffers--;
	vg_mutex_unlock(&it->lock);
	return core_resource_deallocate(it->adaptor.upstream, allocation, stream);
}

static const struct core_resource_class statistics_class = {.object = {"statistics resource", NULL, free_adaptor},
							    .check = check_upstream_stream,
							    .allocate = statistics_allocate,
							    .deallocate = statistics_deallocate};

enum vg_status vg_statistics_resource_create(struct vg_memory_resource *upstream,
					     struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct adaptor *adaptor;

	CORE_NEEDED(ret_resource);
	CORE_TRY(create_adaptor(&statistics_class, sizeof(struct statistics), upstream, &adaptor));
	*ret_resource = &adaptor->resource;
	return VG_OK;
}

enum vg_status vg_statistics_resource_read(const struct vg_memory_resource *resource,
					   struct vg_memory_statistics *ret_statistics)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	CORE_NEEDED(ret_statistics);
	if (core_resource_class(resource) != &statistics_class)
		return vg_fail(VG_INVALID, 0, "a %s keeps no statistics", vg_memory_resource_name(resource));
	struct statistics *it = (struct statistics *)resource;
	vg_mutex_lock(&it->lock);
	*ret_statistics = it->figures;
	vg_mutex_unlock(&it->lock);
	return VG_OK;
}

// ---- logging ------------------------------------------------------------------------------------

struct logging {
	struct adaptor adaptor;
	vg_memory_event_fn *callback;
	void *user;
};

static enum vg_status report_event(struct logging *it, const struct vg_memory_event *event)
{
	struct failure failure;
	char size[VG_SIZE_TEXT];

	if (it->callback) {
		keep_failure(&failure, event->status);
		it->callback(it->user, event);
		return restore_failure(&failure);
	}
	vg_log(VG_LOG_INFO, "%s: %s %s at 0x%llx: %s", vg_memory_resource_name(it->adaptor.upstream),
	       event->freed ? "freed" : "allocated", vg_size_format(event->size, size),
	       (unsigned long long)event->address, vg_status_text(event->status));
	return event->status;
}

static enum vg_status logging_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				       struct vg_allocation *ret_allocation)
{
	struct logging *it = (struct logging *)resource;

	enum vg_status status = core_resource_allocate(it->adaptor.upstream, size, stream, ret_allocation);
	return report_event(
		it, &(struct vg_memory_event){0, ret_allocation->address, ret_allocation->size, stream, status});
}

static enum vg_status logging_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					 struct vg_stream *stream)
{
	struct logging *it = (struct logging *)resource;

	enum vg_status status = core_resource_deallocate(it->adaptor.upstream, allocation, stream);
	return report_event(it, &(struct vg_memory_event){1, allocation->address, allocation->size, stream, status});
}

static const struct core_resource_class logging_class = {.object = {"logging resource", NULL, free_adaptor},
							 .check = check_upstream_stream,
							 .allocate = logging_allocate,
							 .deallocate = logging_deallocate};

enum vg_status vg_logging_resource_create(struct vg_memory_resource *upstream, vg_memory_event_fn *callback, void *user,
					  struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct adaptor *adaptor;

	CORE_NEEDED(ret_resource);
	CORE_TRY(create_adaptor(&logging_class, sizeof(struct logging), upstream, &adaptor));
	((struct logging *)adaptor)->callback = callback;
	((struct logging *)adaptor)->user = user;
	*ret_resource = &adaptor->resource;
	return VG_OK;
}

// ---- retrying -----------------------------------------------------------------------------------

struct retrying {
	struct adaptor adaptor;
	vg_memory_retry_fn *callback;
	void *user;
};

static bool is_out_of_memory(enum vg_status status)
{
	return status == VG_LIMIT || status == VG_NO_MEMORY ||
	       (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_OUT_OF_MEMORY);
}

static enum vg_status retrying_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					struct vg_allocation *ret_allocation)
{
	struct retrying *it = (struct retrying *)resource;
	struct failure failure;

	for (;;) {
		enum vg_status status = core_resource_allocate(it->adaptor.upstream, size, stream, ret_allocation);
		if (!is_out_of_memory(status))
			return status;
		keep_failure(&failure, status);
		if (!it->callback(it->user, size))
			return restore_failure(&failure);
	}
}

static enum vg_status retrying_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					  struct vg_stream *stream)
{
	return core_resource_deallocate(((struct adaptor *)resource)->upstream, allocation, stream);
}

static const struct core_resource_class retrying_class = {.object = {"retrying resource", NULL, free_adaptor},
							  .check = check_upstream_stream,
							  .allocate = retrying_allocate,
							  .deallocate = retrying_deallocate};

enum vg_status vg_retrying_resource_create(struct vg_memory_resource *upstream, vg_memory_retry_fn *callback,
					   void *user, struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct adaptor *adaptor;

	CORE_NEEDED(callback);
	CORE_NEEDED(ret_resource);
	CORE_TRY(create_adaptor(&retrying_class, sizeof(struct retrying), upstream, &adaptor));
	((struct retrying *)adaptor)->callback = callback;
	((struct retrying *)adaptor)->user = user;
	*ret_resource = &adaptor->resource;
	return VG_OK;
}
