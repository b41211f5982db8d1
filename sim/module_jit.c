// Reads the options of the just-in-time compiler, and writes its logs. On hardware, that compiler translates PTX. Here,
// an interpreter runs PTX.
#include <stdarg.h>
#include <stdio.h>

#include "module.h"

CUresult sim_jit_read(unsigned count, const CUjit_option *options, void **values, struct sim_jit *ret_jit)
{
	struct sim_jit jit = {0};

	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		switch (options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			jit.information.text = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			jit.information.capacity = (unsigned)(uintptr_t)values[i];
			jit.information_size = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			jit.error.text = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			jit.error.capacity = (unsigned)(uintptr_t)values[i];
			jit.error_size = &values[i];
			break;
		case CU_JIT_WALL_TIME:
			jit.wall_time = &values[i];
			break;
		default: // a hint to the code generator, which has no effect here
			if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS)
				return CUDA_ERROR_INVALID_VALUE;
		}
	}
	if (!jit.information.text)
		jit.information.capacity = 0;
	if (!jit.error.text)
		jit.error.capacity = 0;
	if (jit.information.capacity)
		jit.information.text[0] = 0;
	if (jit.error.capacity)
		jit.error.text[0] = 0;
	*ret_jit = jit;
	return CUDA_SUCCESS;
}

void sim_jit_log(struct ptx_log *log, const char *format, ...)
{
	va_list arguments;

	if (log->used + 1 >= log->capacity)
		return;
	size_t left = log->capacity - log->used;
	va_start(arguments, format);
	int length = vsnprintf(log->text + log->used, left, format, arguments);
	va_end(arguments);
	log->used += (size_t)length < left ? (size_t)length : left - 1;
}

void sim_jit_write(struct sim_jit *jit)
{
	if (jit->information_size)
		*jit->information_size = (void *)(uintptr_t)jit->information.used;
	if (jit->error_size)
		*jit->error_size = (void *)(uintptr_t)jit->error.used;
	if (jit->wall_time) {
		float milliseconds = 0;
		memcpy(jit->wall_time, &milliseconds, sizeof milliseconds);
	}
}
