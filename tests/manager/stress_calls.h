// Makes the calls of the stress test that do not use blocks directly.
#pragma once

// Waits until an execution has ended, so that its block can be freed. Cancels the execution if the virtual GPU is
// paused. Returns true if the execution completed.
static inline bool await_execution(struct worker *worker, struct vg_execution *execution)
{
	worker->at = "vg_execution_wait";
	enum vg_status status = vg_execution_wait(execution, 0.02 + (double)(next(worker) % 20) / 100);
	if (status == VG_NOT_READY) {
		(void)vg_execution_cancel(execution);
		status = vg_execution_wait(execution, 0);
	}
	if (status && status != VG_STATE && status != VG_CLOSED)
		complain(worker, "an execution: %s: %s", vg_status_text(status), vg_last_error()->text);
	vg_execution_destroy(execution);
	atomic_fetch_add(&worker->calls, 1);
	return status == VG_OK;
}

static inline void call_execute(struct worker *worker)
{
	struct vg_execution *execution;
	struct block *block = pick_block(worker);
	unsigned char value = (unsigned char)next(worker);
	float pattern;

	if (!block || block->size % 4)
		return;
	memset(&pattern, value % 127, sizeof pattern); // a float of such bytes is not a NaN
	if (!MAY(worker,
		 try_fill(worker->vgpu, worker->stream, block->address, pattern, block->size / 4, 1, &execution),
		 VG_LIMIT))
		return;
	struct vg_virtual_gpu *vgpu = worker->vgpu;
	vg_address address = block->address;
	if (await_execution(worker, execution))
		block->value = value % 127;
	// The cancelled execution may have run in part, so all bytes are set again.
	else if (MAY(worker, vg_virtual_gpu_set(vgpu, address, 0, block->size)))
		block->value = 0;
}

static inline void call_operation(struct worker *worker)
{
	struct vg_matrix_multiply multiply = {.size = sizeof multiply, .m = 16, .n = 16, .k = 16, .shared_a = 0};
	struct block *block = &worker->blocks[0];
	struct vg_activation activation = {
		.size = sizeof activation, .batch = 1, .channels = 1, .height = 1, .width = 64};
	struct vg_execution *execution;

	if (!block->address || block->size < 4096)
		return;
	if (!MAY(worker, vg_virtual_gpu_set(worker->vgpu, block->address, 0, block->size)))
		return;
	block->value = 0; // products of zeros
	multiply.a = block->address;
	multiply.b = block->address + 1024;
	multiply.c = block->address + 2048;
	activation.input = activation.output = block->address;
	bool queued =
		next(worker) % 2
			? MAY(worker,
			      vg_virtual_gpu_matrix_multiply(worker->vgpu, &multiply, worker->stream, &execution),
			      VG_LIMIT, VG_INSUFFICIENT)
			: MAY(worker, vg_virtual_gpu_activation(worker->vgpu, &activation, worker->stream, &execution),
			      VG_LIMIT, VG_INSUFFICIENT);
	if (queued)
		(void)await_execution(worker, execution);
}

static inline void call_sync(struct worker *worker)
{
	if (next(worker) % 2)
		MAY(worker, vg_virtual_gpu_sync(worker->vgpu, worker->stream, 0.02), VG_NOT_READY);
	else
		MAY(worker, vg_virtual_gpu_sync_all(worker->vgpu, 0.02), VG_NOT_READY);
}

static inline void call_release(struct worker *worker)
{
	MAY(worker, vg_virtual_gpu_release_stream(worker->vgpu, worker->stream), VG_BUSY);
}

static inline void call_pause(struct worker *worker)
{
	if (!MAY(worker, vg_virtual_gpu_pause(worker->vgpu), VG_STATE))
		return;
	usleep(next(worker) % 2000);
	MAY(worker, vg_virtual_gpu_resume(worker->vgpu));
}

static inline void call_share(struct worker *worker)
{
	switch (next(worker) % 4) {
	// There are VGPUS virtual GPUs. Each asks for at most an equal part of the device's compute share, so that
	// there is enough for all.
	case 0:
		MAY(worker,
		    vg_virtual_gpu_set_compute_share(worker->vgpu, (double)(next(worker) % 64 + 1) / 64 / VGPUS));
		break;
	case 1:
		MAY(worker, vg_virtual_gpu_scale_compute_units(worker->vgpu, 1));
		break;
	case 2:
		MAY(worker, vg_virtual_gpu_set_tensor_cores(worker->vgpu, next(worker) % 2));
		break;
	default:
		MAY(worker, vg_virtual_gpu_set_mixed_precision(worker->vgpu, next(worker) % 2));
	}
}

static inline void call_limit(struct worker *worker)
{
	uint64_t limit = worker->stress->limit;

	MAY(worker, vg_virtual_gpu_set_memory_limit(worker->vgpu, limit - next(worker) % 2 * (limit / 4)), VG_BUSY);
}

static inline void call_look(struct worker *worker)
{
	struct vg_virtual_gpu_info infos[VGPUS], info;
	struct vg_memory_space_info memory;
	struct vg_manager_info all;
	struct vg_virtual_gpu *found;
	size_t count;

	if (MAY(worker, vg_virtual_gpu_info(worker->vgpu, &info)) && info.memory_held > info.memory_limit)
		complain(worker, "virtual GPU %d holds %llu of %llu bytes", info.id,
			 (unsigned long long)info.memory_held, (unsigned long long)info.memory_limit);
	if (MAY(worker, vg_memory_space_info(vg_virtual_gpu_memory(worker->vgpu), &memory)) &&
	    !(memory.fragmentation >= 0 && memory.fragmentation <= 1 && memory.padding_waste >= 0 &&
	      memory.padding_waste <= 1))
		complain(worker, "fragmentation %g, padding %g", memory.fragmentation, memory.padding_waste);
	MAY(worker, vg_manager_list(worker->stress->manager, infos, VGPUS, &count));
	if (MAY(worker, vg_manager_info(worker->stress->manager, &all)) && all.share_promised > 1 + 1e-9)
		complain(worker, "the shares come to %g", all.share_promised);
	if (MAY(worker, vg_manager_find(worker->stress->manager, (int)(next(worker) % (2 * VGPUS)), &found),
		VG_NOT_FOUND))
		vg_virtual_gpu_destroy(found);
	(void)vg_manager_status(worker->stress->manager, worker->id);
}

static inline void call_space(struct worker *worker)
{
	struct vg_memory_space *space = vg_virtual_gpu_memory(worker->vgpu);
	const struct vg_compact_options bounds = {.size = sizeof bounds, .max_bytes = 4 << 20};
	struct vg_compact_result result;
	vg_address address;

	switch (next(worker) % 5) {
	case 0:
		MAY(worker, vg_memory_space_defragment(space, NULL));
		break;
	case 1:
		MAY(worker, vg_memory_space_compact(space, &bounds, &result), VG_BUSY);
		break;
	case 2:
		if (!worker->movable)
			MAY(worker, vg_movable_block_create(space, 100000, &worker->movable), VG_INSUFFICIENT);
		break;
	case 3:
		if (worker->movable && MAY(worker, vg_movable_block_pin(worker->movable, &address))) {
			MAY(worker, vg_memory_space_set(space, address, 3, 100000));
			if (worker->movable)
				MAY(worker, vg_movable_block_unpin(worker->movable));
		}
		break;
	default:
		vg_movable_block_destroy(worker->movable);
		worker->movable = NULL;
	}
}

// Closes or ends the virtual GPU, but only once in twenty calls, because all threads lose their blocks in it.
static inline void call_close(struct worker *worker)
{
	if (next(worker) % 20)
		return;
	if (next(worker) % 2 ? MAY(worker, vg_virtual_gpu_close(worker->vgpu), VG_BUSY)
			     : MAY(worker, vg_virtual_gpu_end(worker->vgpu))) {
		atomic_fetch_add(&worker->stress->closed, 1);
		forget(worker);
	}
}

static void stress_call(struct worker *worker, unsigned what)
{
	static void (*const calls[])(struct worker *) = {
		call_allocate, call_allocate, call_free,    call_read,	    call_read,	call_write,
		call_copy,     call_execute,  call_execute, call_operation, call_sync,	call_release,
		call_pause,    call_share,    call_limit,   call_look,	    call_space, call_close,
	};

	if (ensure_vgpu(worker))
		calls[what % (sizeof calls / sizeof *calls)](worker);
	else
		usleep(1000);
}

static void stress_free_blocks(struct worker *worker)
{
	for (int i = 0; i < BLOCKS && worker->vgpu; i++)
		if (worker->blocks[i].address &&
		    MAY(worker, vg_virtual_gpu_free(worker->vgpu, worker->blocks[i].address)))
			worker->blocks[i].address = 0;
	vg_movable_block_destroy(worker->movable);
	worker->movable = NULL;
}

static void *stress_work(void *data)
{
	struct worker *worker = data;

	while (!atomic_load(&worker->stress->stop))
		stress_call(worker, (unsigned)next(worker));
	atomic_store(&worker->ended, true);
	return NULL;
}
