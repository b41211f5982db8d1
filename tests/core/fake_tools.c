// NVRTC, NVVM and nvJitLink in one library for tests: they make text, count what is alive, and fail where they are
// told. FAKE_FAIL=entry:N=result fails the Nth call of an entry; FAKE_PCH=small has a precompiled header not fit the
// first time.
#include <nvrtc.h>
#include <nvvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

// Without the header: it has the entries under other names.
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

// The result of this call.
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

#define ENTER                                                                                                          \
	int result_ = result_of(__func__);                                                                             \
	if (result_)                                                                                                   \
	return result_
#define GIVES(text, size)                                                                                              \
	ENTER;                                                                                                         \
	*size = sizeof text;                                                                                           \
	return 0
#define FILLS(text, buffer)                                                                                            \
	ENTER;                                                                                                         \
	memcpy(buffer, text, sizeof text);                                                                             \
	return 0

PUBLIC const char *nvrtcGetErrorString(nvrtcResult result)
{
	return result == NVRTC_ERROR_INTERNAL_ERROR ? "NVRTC_ERROR_INTERNAL_ERROR" : "another error";
}

PUBLIC nvrtcResult nvrtcVersion(int *major, int *minor)
{
	ENTER;
	*major = 99;
	*minor = 1;
	return NVRTC_SUCCESS;
}

PUBLIC nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int count,
				      const char *const *headers, const char *const *names)
{
	ENTER;
	*program = calloc(1, sizeof **program);
	alive++;
	return NVRTC_SUCCESS;
}

PUBLIC nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
	free(*program);
	*program = NULL;
	alive--;
	return NVRTC_SUCCESS;
}

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

PUBLIC nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options)
{
	ENTER;
	return NVRTC_SUCCESS;
}

PUBLIC nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
	GIVES("the compiler's log", size);
}

PUBLIC nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
	FILLS("the compiler's log", log);
}

PUBLIC nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
	GIVES("ptx", size);
}

PUBLIC nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *code)
{
	FILLS("ptx", code);
}

PUBLIC nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
	GIVES("cubin", size);
}

PUBLIC nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code)
{
	FILLS("cubin", code);
}

PUBLIC nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram program, size_t *size)
{
	GIVES("ltoir", size);
}

PUBLIC nvrtcResult nvrtcGetLTOIR(nvrtcProgram program, char *code)
{
	FILLS("ltoir", code);
}

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

PUBLIC nvvmResult nvvmVersion(int *major, int *minor)
{
	ENTER;
	*major = 2;
	*minor = 0;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmCreateProgram(nvvmProgram *program)
{
	ENTER;
	*program = malloc(1);
	alive++;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmDestroyProgram(nvvmProgram *program)
{
	free(*program);
	*program = NULL;
	alive--;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmAddModuleToProgram(nvvmProgram program, const char *data, size_t size, const char *name)
{
	ENTER;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmLazyAddModuleToProgram(nvvmProgram program, const char *data, size_t size, const char *name)
{
	ENTER;
	return strcmp(name, "libdevice") == 0 ? NVVM_SUCCESS : NVVM_ERROR_INVALID_INPUT;
}

PUBLIC nvvmResult nvvmVerifyProgram(nvvmProgram program, int count, const char **options)
{
	ENTER;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmCompileProgram(nvvmProgram program, int count, const char **options)
{
	ENTER;
	return NVVM_SUCCESS;
}

PUBLIC nvvmResult nvvmGetCompiledResultSize(nvvmProgram program, size_t *size)
{
	GIVES("ptx", size);
}

PUBLIC nvvmResult nvvmGetCompiledResult(nvvmProgram program, char *code)
{
	FILLS("ptx", code);
}

PUBLIC nvvmResult nvvmGetProgramLogSize(nvvmProgram program, size_t *size)
{
	GIVES("the compiler's log", size);
}

PUBLIC nvvmResult nvvmGetProgramLog(nvvmProgram program, char *log)
{
	FILLS("the compiler's log", log);
}

#define DECLARED(name, ...)                                                                                            \
	PUBLIC nvJitLinkResult name(__VA_ARGS__);                                                                      \
	nvJitLinkResult name(__VA_ARGS__)

DECLARED(nvJitLinkVersion, unsigned *major, unsigned *minor)
{
	ENTER;
	*major = 99;
	*minor = 1;
	return 0;
}

DECLARED(nvJitLinkCreate, nvJitLinkHandle *handle, unsigned count, const char **options)
{
	ENTER;
	*handle = malloc(1);
	alive++;
	return 0;
}

DECLARED(nvJitLinkDestroy, nvJitLinkHandle *handle)
{
	free(*handle);
	*handle = NULL;
	alive--;
	return 0;
}

DECLARED(nvJitLinkAddData, nvJitLinkHandle handle, nvJitLinkInputType type, const void *data, size_t size,
	 const char *name)
{
	ENTER;
	return 0;
}

DECLARED(nvJitLinkAddFile, nvJitLinkHandle handle, nvJitLinkInputType type, const char *path)
{
	ENTER;
	return 0;
}

DECLARED(nvJitLinkComplete, nvJitLinkHandle handle)
{
	ENTER;
	return 0;
}

DECLARED(nvJitLinkGetLinkedCubinSize, nvJitLinkHandle handle, size_t *size)
{
	GIVES("cubin", size);
}

DECLARED(nvJitLinkGetLinkedCubin, nvJitLinkHandle handle, void *code)
{
	FILLS("cubin", code);
}

DECLARED(nvJitLinkGetLinkedPtxSize, nvJitLinkHandle handle, size_t *size)
{
	GIVES("ptx", size);
}

DECLARED(nvJitLinkGetLinkedPtx, nvJitLinkHandle handle, char *code)
{
	FILLS("ptx", code);
}

// "ERROR" in it, although all succeeded, where the tests ask for that.
DECLARED(nvJitLinkGetErrorLogSize, nvJitLinkHandle handle, size_t *size)
{
	GIVES("ERROR of the linker", size);
}

DECLARED(nvJitLinkGetErrorLog, nvJitLinkHandle handle, char *log)
{
	ENTER;
	strcpy(log, getenv("FAKE_QUIET") ? "" : "ERROR of the linker");
	return 0;
}

DECLARED(nvJitLinkGetInfoLogSize, nvJitLinkHandle handle, size_t *size)
{
	GIVES("the linker's words", size);
}

DECLARED(nvJitLinkGetInfoLog, nvJitLinkHandle handle, char *log)
{
	FILLS("the linker's words", log);
}
