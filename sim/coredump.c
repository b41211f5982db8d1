// Keeps the settings for core dumps, which a program can set and read. The simulator never writes a core dump.
#include "context.h"
#include "entry.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool on_exception, trigger_host, lightweight, user_trigger;
	unsigned generation_flags;
	char file[1024], pipe[1024];
} settings = {.trigger_host = true};

// Returns the setting and its size; NULL: unknown.
static void *find_setting(CUcoredumpSettings attribute, size_t *ret_size)
{
	switch ((int)attribute) {
	case CU_COREDUMP_ENABLE_ON_EXCEPTION:
		*ret_size = sizeof settings.on_exception;
		return &settings.on_exception;
	case CU_COREDUMP_TRIGGER_HOST:
		*ret_size = sizeof settings.trigger_host;
		return &settings.trigger_host;
	case CU_COREDUMP_LIGHTWEIGHT:
		*ret_size = sizeof settings.lightweight;
		return &settings.lightweight;
	case CU_COREDUMP_ENABLE_USER_TRIGGER:
		*ret_size = sizeof settings.user_trigger;
		return &settings.user_trigger;
	case CU_COREDUMP_FILE:
		*ret_size = sizeof settings.file;
		return settings.file;
	case CU_COREDUMP_PIPE:
		*ret_size = sizeof settings.pipe;
		return settings.pipe;
	case CU_COREDUMP_GENERATION_FLAGS:
		*ret_size = sizeof settings.generation_flags;
		return &settings.generation_flags;
	default:
		return NULL;
	}
}

static CUresult get_setting(CUcoredumpSettings attribute, void *value, size_t *size)
{
	size_t have;
	const void *from = find_setting(attribute, &have);

	if (!from || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (have == sizeof settings.file) // a text
		have = strlen(from) + 1;
	CUresult result = value && *size < have ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (value && result == CUDA_SUCCESS)
		memcpy(value, from, have);
	*size = have;
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult set_setting(CUcoredumpSettings attribute, const void *value, const size_t *size)
{
	size_t room;
	void *to = find_setting(attribute, &room);

	if (!to || !value || !size || (room != sizeof settings.file && *size != room) || *size > room)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	memcpy(to, value, *size);
	if (room == sizeof settings.file)
		((char *)to)[room - 1] = 0;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	struct sim_context *context;

	SIM_ENTER(cuCoredumpGetAttribute);
	SIM_TRY(sim_context_current_any(&context));
	return get_setting(attrib, value, size);
}

CUresult CUDAAPI cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	SIM_ENTER(cuCoredumpGetAttributeGlobal);
	return get_setting(attrib, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	struct sim_context *context;

	SIM_ENTER(cuCoredumpSetAttribute);
	SIM_TRY(sim_context_current_any(&context));
	return set_setting(attrib, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
	SIM_ENTER(cuCoredumpSetAttributeGlobal);
	return set_setting(attrib, value, size);
}
