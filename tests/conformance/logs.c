// Tests the driver's log of errors: iterators, dumps, callbacks. CUDA does not document which failures are logged.
#include "conformance.h"

CONFORM(iterators)
{
	char text[512];
	size_t size = sizeof text;
	CUlogIterator now = 0, same = 0;

	need_context();
	WORKS(cuLogsCurrent(&now, 0));
	same = now;
	WORKS(cuLogsDumpToMemory(&same, text, &size, 0)); // nothing since
	EQUALS(size, 0);
	GIVES(cuLogsCurrent(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	size = sizeof text;
	GIVES(cuLogsDumpToMemory(&now, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLogsDumpToMemory(&now, text, NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(messages)
{
	static char text[25601];
	CUlogIterator at = 0;
	size_t size = sizeof text;
	CUfunction empty;

	need_context();
	empty = need_function(need_module(ptx_basic), "empty");
	WORKS(cuLogsCurrent(&at, 0));
	FAILS(cuLaunchKernel(empty, 1, 1, 1, 1024, 1024, 64, 0, NULL, NULL, NULL));
	WORKS(cuLogsDumpToMemory(&at, text, &size, 0));
	HOLDS(size < sizeof text && strlen(text) == size);
	HOLDS(size == 0 || text[size - 1] == '\n' || strchr(text, '\n') == NULL);
	size = sizeof text;
	WORKS(cuLogsDumpToMemory(&at, text, &size, 0)); // the dump has advanced the iterator
	EQUALS(size, 0);
}

CONFORM(a_parameter_too_many_is_mentioned)
{
	static char text[25601];
	CUlogIterator at = 0;
	size_t size = sizeof text, offset, bytes;
	CUfunction empty;

	need_context();
	empty = need_function(need_module(ptx_basic), "empty");
	WORKS(cuLogsCurrent(&at, 0));
	GIVES(cuFuncGetParamInfo(empty, 0, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuLogsDumpToMemory(&at, text, &size, 0));
	HOLDS(strstr(text, "paramIndex 0 outside of kernel parameter count 0") != NULL);
}

static void count(void *data, CUlogLevel level, char *message, size_t length)
{
	++*(unsigned *)data;
}

CONFORM(callbacks)
{
	CUlogsCallbackHandle handle = NULL;
	unsigned calls = 0, then;
	CUfunction empty;

	need_context();
	empty = need_function(need_module(ptx_basic), "empty");
	GIVES(cuLogsRegisterCallback(NULL, NULL, &handle), CUDA_ERROR_INVALID_VALUE);
	NEED(cuLogsRegisterCallback(count, &calls, &handle));
	FAILS(cuLaunchKernel(empty, 1, 1, 1, 1024, 1024, 64, 0, NULL, NULL, NULL));
	WORKS(cuLogsUnregisterCallback(handle));
	then = calls;
	FAILS(cuLaunchKernel(empty, 1, 1, 1, 1024, 1024, 64, 0, NULL, NULL, NULL));
	EQUALS(calls, then);
}

CONFORM(files)
{
	char path[] = "/tmp/virgate-logs-XXXXXX";
	int file = mkstemp(path);

	need_context();
	HOLDS(file >= 0);
	WORKS(cuLogsDumpToFile(NULL, path, 0));
	FAILS(cuLogsDumpToFile(NULL, "/nowhere/at/all", 0));
	close(file);
	unlink(path);
}
