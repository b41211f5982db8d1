// Replaces NVRTC, NVVM and nvJitLink for tests. The functions return texts, count live objects, and fail on demand:
// FAKE_FAIL=entry:N=result makes the Nth call of the function `entry` fail. With FAKE_PCH=small, the heap for
// precompiled headers is too small until the caller enlarges it.
#include <nvrtc.h>
#include <nvvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

// Declared here, since nvJitLink's header names its functions differently.
typedef int nvJitLinkResult, nvJitLinkInputType;
typedef struct nvJitLink *nvJitLinkHandle;

struct _nvrtcProgram {
	char name[64];
};

PUBLIC int fake_alive(void);
static int alive, pch_heap;

int fake_alive(void)
{
	return alive;
}

// Returns the result of this call of the function `entry`: success, or the failure that FAKE_FAIL demands.
static int result_of(const char *entry)
{
	static struct {
		char entry[64];
		int calls;
	} seen[64];
	const char *told = getenv("FAKE_FAIL");
	char name[64];
	int number, result, i = 0;

	while (seen[i].entry[0] && strcmp(seen[i].entry, entry) != 0)
		i++;
	strcpy(seen[i].entry, entry);
	seen[i].calls++;
	if (!told || sscanf(told, "%63[^:]:%d=%d", name, &number, &result) != 3 || strcmp(name, entry) != 0)
		return 0;
	return seen[i].calls == number ? result : 0;
}

#define ENTER                              \
	int result_ = result_of(__func__); \
	if (result_)                       \
	return result_
// Defines a function that succeeds, or fails on demand.
#define SUCCEEDS(result, name, ...)      \
	PUBLIC result name(__VA_ARGS__); \
	result name(__VA_ARGS__)         \
	{                                \
		ENTER;                   \
		return 0;                \
	}
// Defines NAMESize() and NAME(), which return a text and its size.
#define SIZE_OF(result, name, handle, text)                    \
	PUBLIC result name##Size(handle native, size_t *size); \
	result name##Size(handle native, size_t *size)         \
	{                                                      \
		ENTER;                                         \
		*size = sizeof text;                           \
		return 0;                                      \
	}
#define TEXT_OF(result, name, handle, type, text)        \
	SIZE_OF(result, name, handle, text)              \
	PUBLIC result name(handle native, type *buffer); \
	result name(handle native, type *buffer)         \
	{                                                \
		ENTER;                                   \
		memcpy(buffer, text, sizeof text);       \
		return 0;                                \
	}
// Defines functions that create and destroy objects, and count them.
#define CREATES(result, name, handle, bytes, ...)          \
	PUBLIC result name(handle *native, ##__VA_ARGS__); \
	result name(handle *native, ##__VA_ARGS__)         \
	{                                                  \
		ENTER;                                     \
		*native = calloc(1, bytes);                \
		alive++;                                   \
		return 0;                                  \
	}
#define DESTROYS(result, name, handle)      \
	PUBLIC result name(handle *native); \
	result name(handle *native)         \
	{                                   \
		free(*native);              \
		*native = NULL;             \
		alive--;                    \
		return 0;                   \
	}
#define VERSION(result, name, type, major_, minor_)   \
	PUBLIC result name(type *major, type *minor); \
	result name(type *major, type *minor)         \
	{                                             \
		ENTER;                                \
		*major = major_;                      \
		*minor = minor_;                      \
		return 0;                             \
	}

PUBLIC const char *nvrtcGetErrorString(nvrtcResult result)
{
	return result == NVRTC_ERROR_INTERNAL_ERROR ? "NVRTC_ERROR_INTERNAL_ERROR" : "another error";
}

VERSION(nvrtcResult, nvrtcVersion, int, 99, 1)
CREATES(nvrtcResult, nvrtcCreateProgram, nvrtcProgram, sizeof(struct _nvrtcProgram), const char *source,
	const char *name, int count, const char *const *headers, const char *const *names)
DESTROYS(nvrtcResult, nvrtcDestroyProgram, nvrtcProgram)

PUBLIC nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char *expression)
{
	ENTER;
	snprintf(program->name, sizeof program->name, "lowered_%s", expression);
	return NVRTC_SUCCESS;
}

PUBLIC nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char *expression, const char **ret_name)
{
	ENTER;
	*ret_name = program->name;
	return NVRTC_SUCCESS;
}

SUCCEEDS(nvrtcResult, nvrtcCompileProgram, nvrtcProgram program, int count, const char *const *options)
TEXT_OF(nvrtcResult, nvrtcGetProgramLog, nvrtcProgram, char, "the compiler's log")
TEXT_OF(nvrtcResult, nvrtcGetPTX, nvrtcProgram, char, "ptx")
TEXT_OF(nvrtcResult, nvrtcGetCUBIN, nvrtcProgram, char, "cubin")
TEXT_OF(nvrtcResult, nvrtcGetLTOIR, nvrtcProgram, char, "ltoir")

PUBLIC nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram program)
{
	const char *pch = getenv("FAKE_PCH");

	ENTER;
	if (pch && strcmp(pch, "small") == 0)
		return pch_heap == 4711 ? NVRTC_SUCCESS : NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED;
	if (pch && strcmp(pch, "never") == 0)
		return NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED;
	return pch ? NVRTC_ERROR_PCH_CREATE : NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED;
}

PUBLIC nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram program, size_t *size)
{
	ENTER;
	*size = 4711;
	return NVRTC_SUCCESS;
}

PUBLIC nvrtcResult nvrtcSetPCHHeapSize(size_t size)
{
	ENTER;
	pch_heap = (int)size;
	return NVRTC_SUCCESS;
}

PUBLIC const char *nvvmGetErrorString(nvvmResult result)
{
	return result == NVVM_ERROR_COMPILATION ? "NVVM_ERROR_COMPILATION" : "another error";
}

VERSION(nvvmResult, nvvmVersion, int, 2, 0)
CREATES(nvvmResult, nvvmCreateProgram, nvvmProgram, 1)
DESTROYS(nvvmResult, nvvmDestroyProgram, nvvmProgram)
SUCCEEDS(nvvmResult, nvvmAddModuleToProgram, nvvmProgram program, const char *data, size_t size, const char *name)

PUBLIC nvvmResult nvvmLazyAddModuleToProgram(nvvmProgram program, const char *data, size_t size, const char *name)
{
	ENTER;
	return strcmp(name, "libdevice") == 0 ? NVVM_SUCCESS : NVVM_ERROR_INVALID_INPUT;
}

SUCCEEDS(nvvmResult, nvvmVerifyProgram, nvvmProgram program, int count, const char **options)
SUCCEEDS(nvvmResult, nvvmCompileProgram, nvvmProgram program, int count, const char **options)
TEXT_OF(nvvmResult, nvvmGetCompiledResult, nvvmProgram, char, "ptx")
TEXT_OF(nvvmResult, nvvmGetProgramLog, nvvmProgram, char, "the compiler's log")

VERSION(nvJitLinkResult, nvJitLinkVersion, unsigned, 99, 1)
CREATES(nvJitLinkResult, nvJitLinkCreate, nvJitLinkHandle, 1, unsigned count, const char **options)
DESTROYS(nvJitLinkResult, nvJitLinkDestroy, nvJitLinkHandle)
SUCCEEDS(nvJitLinkResult, nvJitLinkAddData, nvJitLinkHandle handle, nvJitLinkInputType type, const void *data,
	 size_t size, const char *name)
SUCCEEDS(nvJitLinkResult, nvJitLinkAddFile, nvJitLinkHandle handle, nvJitLinkInputType type, const char *path)
SUCCEEDS(nvJitLinkResult, nvJitLinkComplete, nvJitLinkHandle handle)
TEXT_OF(nvJitLinkResult, nvJitLinkGetLinkedCubin, nvJitLinkHandle, void, "cubin")
TEXT_OF(nvJitLinkResult, nvJitLinkGetLinkedPtx, nvJitLinkHandle, char, "ptx")
TEXT_OF(nvJitLinkResult, nvJitLinkGetInfoLog, nvJitLinkHandle, char, "the linker's log")

// Unless FAKE_QUIET is set, the log contains "ERROR", even if all calls succeeded.
SIZE_OF(nvJitLinkResult, nvJitLinkGetErrorLog, nvJitLinkHandle, "ERROR of the linker")
PUBLIC nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log);
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log)
{
	ENTER;
	strcpy(log, getenv("FAKE_QUIET") ? "" : "ERROR of the linker");
	return 0;
}
