// Implements functions of the device runtime: vprintf, malloc, free, __assertfail.
#include <stdio.h>

#include "sim/ptx/engine.h"

static uint64_t get_argument(const struct ptx_warp *warp, const struct ptx_call *call, uint32_t index, unsigned lane)
{
	const struct ptx_argument *one = &call->arguments[index];
	const uint8_t *from = one->is_literal ? warp->constants + (one->ref & ~1u) : warp->registers + one->ref;
	uint64_t value = 0;

	memcpy(&value, from + lane * one->size, one->size < 8 ? one->size : 8);
	return value;
}

static void set_result(const struct ptx_warp *warp, const struct ptx_call *call, unsigned lane, uint64_t value)
{
	if (call->result_count) {
		const struct ptx_argument *one = &call->results[0];
		memcpy(warp->registers + one->ref + lane * one->size, &value, one->size < 8 ? one->size : 8);
	}
}

static const struct ptx_op *builtin_vprintf(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_call *call = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	{
		int count = ptx_print(warp, lane, get_argument(warp, call, 0, lane), get_argument(warp, call, 1, lane));
		set_result(warp, call, lane, (uint64_t)(int64_t)count);
	}
	return op + 1;
}

static const struct ptx_op *builtin_malloc(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_call *call = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	set_result(warp, call, lane,
		   ptx_heap_allocate(warp->worker->run->launch->heap, get_argument(warp, call, 0, lane)));
	warp->worker->changes++;
	return op + 1;
}

static const struct ptx_op *builtin_free(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_call *call = op->data;

	PTX_FOR_LANES(lane, warp->mask)
	{
		uint64_t address = get_argument(warp, call, 0, lane);
		if (address && !ptx_heap_free(warp->worker->run->launch->heap, address))
			return ptx_fault(warp, op, lane, PTX_FAULT_ILLEGAL_ADDRESS, address,
					 "free of 0x%llx, which malloc did not return", (unsigned long long)address);
	}
	warp->worker->changes++;
	return op + 1;
}

static const struct ptx_op *builtin_assertfail(struct ptx_warp *warp, const struct ptx_op *op)
{
	const struct ptx_call *call = op->data;
	const uint32_t *block = warp->block->id;
	unsigned lane = ptx_first_lane(warp->mask);
	char message[256], file[256], function[256], text[1024];

	ptx_copy_string(warp, lane, get_argument(warp, call, 0, lane), message, sizeof message);
	ptx_copy_string(warp, lane, get_argument(warp, call, 1, lane), file, sizeof file);
	ptx_copy_string(warp, lane, get_argument(warp, call, 3, lane), function, sizeof function);
	PTX_FOR_LANES(each, warp->mask)
	{
		int length = snprintf(text, sizeof text,
				      "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
				      (uint32_t)get_argument(warp, call, 2, each), function, block[0], block[1],
				      block[2], warp->tid[0][each], warp->tid[1][each], warp->tid[2][each], message);
		if (length > 0)
			ptx_print_text(warp->worker->run, text,
				       (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
	}
	return ptx_fault(warp, op, lane, PTX_FAULT_ASSERT, 0, "assertion `%s` failed", message);
}

static const struct {
	const char *name;
	ptx_builtin_fn *run;
	uint32_t arguments;
} builtins[] = {
	{"vprintf", builtin_vprintf, 2},
	{"malloc", builtin_malloc, 1},
	{"free", builtin_free, 1},
	{"__assertfail", builtin_assertfail, 5},
};

ptx_builtin_fn *ptx_builtin_find(const char *name, uint32_t *ret_arguments)
{
	for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
		if (strcmp(builtins[i].name, name) == 0) {
			*ret_arguments = builtins[i].arguments;
			return builtins[i].run;
		}
	return NULL;
}
