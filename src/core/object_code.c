#include "core/object_code.h"

#include "base/size.h"
#include "core/error.h"
#include "core/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum vg_status close_code(struct core_object *object)
{
	CUlibrary library = atomic_exchange(&((struct vg_object_code *)object)->library, NULL);

	if (!library)
		return VG_OK;
	CUresult r = core_driver->cuLibraryUnload(library);
	return r ? core_driver_failed(r, "cuLibraryUnload", "%s", "") : VG_OK;
}

static void free_code(struct core_object *object)
{
	struct vg_object_code *code = (struct vg_object_code *)object;

	free(code->name);
	free(code->title);
	free(code->data);
	free(code->path);
	free(code->symbols);
	free(code);
}

static const struct core_class code_class = {"object code", close_code, free_code};

static enum vg_status check_symbols(const struct vg_symbol *symbols, size_t count)
{
	if (count && !symbols)
		return vg_fail(VG_INVALID, 0, "symbols is NULL, but symbol_count is %zu", count);
	for (size_t i = 0; i < count; i++)
		if (!symbols[i].expression || !symbols[i].symbol)
			return vg_fail(VG_INVALID, 0, "symbols[%zu] lacks its %s", i,
				       symbols[i].expression ? "symbol" : "expression");
	return VG_OK;
}

struct vg_symbol *core_symbols_copy(const struct vg_symbol *symbols, size_t count)
{
	size_t bytes = count * sizeof *symbols;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(symbols[i].expression) + strlen(symbols[i].symbol) + 2;
	struct vg_symbol *copy = count ? malloc(bytes) : NULL;
	char *text = (char *)(copy + count);
	for (size_t i = 0; copy && i < count; i++) {
		copy[i].expression = text;
		text = stpcpy(text, symbols[i].expression) + 1;
		copy[i].symbol = text;
		text = stpcpy(text, symbols[i].symbol) + 1;
	}
	return copy;
}

static char *make_title(enum vg_code_type type, const char *name, size_t bytes)
{
	char size[VG_SIZE_TEXT], *title = NULL;
	int length = *name ? asprintf(&title, "%s \"%s\"", core_code_type_name(type), name)
			   : asprintf(&title, "%s of %s", core_code_type_name(type), vg_size_format(bytes, size));

	return length < 0 ? NULL : title;
}

// Creates the object for code of `bytes` bytes, but does not set the code.
static enum vg_status create_code(enum vg_code_type type, const char *name, size_t bytes,
				  const struct vg_object_code_options *options, struct vg_object_code **ret_code)
{
	struct vg_object_code *code = calloc(1, sizeof *code);

	if (!code)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for object code");
	core_object_init(&code->object, &code_class);
	code->type = type;
	code->name = strdup(options->name ? options->name : name);
	code->title = code->name ? make_title(type, code->name, bytes) : NULL;
	code->symbols = core_symbols_copy(options->symbols, options->symbol_count);
	code->symbol_count = options->symbol_count;
	if (!code->title || (code->symbol_count && !code->symbols)) {
		core_object_release(&code->object);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for object code");
	}
	*ret_code = code;
	return VG_OK;
}

enum vg_status vg_object_code_create(enum vg_code_type type, const void *data, size_t data_size,
				     const struct vg_object_code_options *options, struct vg_object_code **ret_code)
{
	VG_ENTRY();
	struct vg_object_code_options o;
	struct vg_object_code *code;

	CORE_NEEDED(data);
	CORE_NEEDED(ret_code);
	CORE_OPTIONS(o, options);
	if (!core_code_type_name(type))
		return vg_fail(VG_INVALID, 0, "there is no code type %d", (int)type);
	CORE_TRY(check_symbols(o.symbols, o.symbol_count));
	CORE_TRY(core_code_check(type, data, data_size));
	while (type == VG_CODE_PTX && data_size && !((const char *)data)[data_size - 1])
		data_size--; // the size may include the zero byte
	CORE_TRY(create_code(type, "", data_size, &o, &code));
	code->data = malloc(data_size + 1);
	if (!code->data) {
		core_object_release(&code->object);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of %s", data_size, core_code_type_name(type));
	}
	memcpy(code->data, data, data_size);
	((char *)code->data)[data_size] = '\0';
	code->size = data_size;
	*ret_code = code;
	return VG_OK;
}

enum vg_status core_object_code_adopt(enum vg_status status, enum vg_code_type type, const char *name,
				      struct core_compiled *compiled, struct vg_object_code **ret_code)
{
	struct vg_object_code_options none = {sizeof none};
	struct vg_object_code *code = NULL;

	if (status == VG_OK)
		status = create_code(type, name, compiled->size, &none, &code);
	if (status) {
		free(compiled->data);
		free(compiled->symbols);
		return status;
	}
	code->data = compiled->data;
	code->size = compiled->size;
	code->symbols = compiled->symbols;
	code->symbol_count = compiled->symbol_count;
	*ret_code = code;
	return VG_OK;
}

enum vg_status vg_object_code_from_file(enum vg_code_type type, const char *path,
					const struct vg_object_code_options *options, struct vg_object_code **ret_code)
{
	VG_ENTRY();
	struct vg_object_code_options o;
	struct vg_object_code *code;

	CORE_NEEDED(path);
	CORE_NEEDED(ret_code);
	CORE_OPTIONS(o, options);
	if (!core_code_type_name(type))
		return vg_fail(VG_INVALID, 0, "there is no code type %d", (int)type);
	CORE_TRY(check_symbols(o.symbols, o.symbol_count));
	if (access(path, R_OK))
		return vg_fail(errno == EACCES ? VG_DENIED : VG_NOT_FOUND, errno, "cannot read %s %s: %s",
			       core_code_type_name(type), path, strerror(errno));
	CORE_TRY(create_code(type, path, 0, &o, &code));
	code->path = strdup(path);
	if (!code->path) {
		core_object_release(&code->object);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a path");
	}
	*ret_code = code;
	return VG_OK;
}

enum vg_status vg_object_code_close(struct vg_object_code *code)
{
	VG_ENTRY();
	CORE_NEEDED(code);
	return core_object_close(&code->object);
}

void vg_object_code_destroy(struct vg_object_code *code)
{
	core_object_release(code ? &code->object : NULL);
}

// If the driver's compiler wrote a log, checks whether the PTX compiled. A real GPU's driver loads invalid PTX without
// an error, and every later use fails.
static CUresult check_loaded(CUlibrary library, const char *log)
{
	CUkernel kernel;

	if (!log[0])
		return CUDA_SUCCESS;
	CUresult r = core_driver->cuLibraryGetKernel(&kernel, library, "");
	if (r != CUDA_ERROR_NOT_FOUND)
		return r;
	core_log_skip();
	return CUDA_SUCCESS;
}

enum vg_status core_code_failed(const struct vg_object_code *code, CUresult result, const char *call, const char *what)
{
	char log[sizeof code->log];

	snprintf(log, sizeof log, "%.*s", (int)(sizeof code->log - 1), code->log);
	if (!log[0])
		snprintf(log, sizeof log, "%.*s", (int)(sizeof code->notes - 1), code->notes);
	enum vg_status status = core_driver_failed(result, call, "%s%s", what, core_see_log(log));
	if (log[0])
		vg_fail_log(log);
	return status;
}

static enum vg_status load_locked(struct vg_object_code *code, CUlibrary *ret_library)
{
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
				  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {code->log, (void *)sizeof code->log, code->notes, (void *)sizeof code->notes};
	CUlibrary library = NULL;

	memset(code->log, 0, sizeof code->log);
	memset(code->notes, 0, sizeof code->notes);
	CUresult r =
		code->path ? core_driver->cuLibraryLoadFromFile(&library, code->path, options, values, 4, NULL, NULL, 0)
			   : core_driver->cuLibraryLoadData(&library, code->data, options, values, 4, NULL, NULL, 0);
	if (r == CUDA_SUCCESS) {
		r = check_loaded(library, code->log);
		if (r == CUDA_SUCCESS) {
			*ret_library = library;
			return VG_OK;
		}
		core_driver->cuLibraryUnload(library);
	}
	return core_code_failed(code, r, code->path ? "cuLibraryLoadFromFile" : "cuLibraryLoadData", code->title);
}

enum vg_status vg_object_code_load(struct vg_object_code *code)
{
	VG_ENTRY();
	CUlibrary library;

	return vg_object_code_handle(code, &library);
}

enum vg_status vg_object_code_handle(struct vg_object_code *code, struct CUlib_st **ret_handle)
{
	VG_ENTRY();
	CORE_USABLE(code, "code");
	CORE_NEEDED(ret_handle);
	if (code->type != VG_CODE_CUBIN && code->type != VG_CODE_PTX && code->type != VG_CODE_FATBIN)
		return vg_fail(VG_UNSUPPORTED, 0, "%s cannot be loaded: only cubin, PTX and fatbin can; link it first",
			       code->title);
	CUlibrary library = atomic_load_explicit(&code->library, memory_order_acquire);
	if (!library) {
		CORE_TRY(core_open());
		vg_mutex_lock(&code->loading);
		library = atomic_load(&code->library);
		enum vg_status status = library ? VG_OK : load_locked(code, &library);
		if (status == VG_OK)
			atomic_store(&code->library, library);
		vg_mutex_unlock(&code->loading);
		if (status)
			return status;
	}
	*ret_handle = library;
	return VG_OK;
}

enum vg_code_type vg_object_code_type(const struct vg_object_code *code)
{
	return code ? code->type : (enum vg_code_type)0;
}

const char *vg_object_code_name(const struct vg_object_code *code)
{
	return code ? code->name : "";
}

const void *vg_object_code_data(const struct vg_object_code *code, size_t *ret_size)
{
	if (ret_size)
		*ret_size = code ? code->size : 0;
	return code ? code->data : NULL;
}

const char *vg_object_code_path(const struct vg_object_code *code)
{
	return code ? code->path : NULL;
}

size_t vg_object_code_symbols(const struct vg_object_code *code, const struct vg_symbol **ret_symbols)
{
	if (ret_symbols)
		*ret_symbols = code ? code->symbols : NULL;
	return code ? code->symbol_count : 0;
}

const char *core_code_expression(const struct vg_object_code *code, const char *symbol)
{
	for (size_t i = 0; i < code->symbol_count; i++)
		if (strcmp(code->symbols[i].symbol, symbol) == 0)
			return code->symbols[i].expression;
	return symbol;
}

const char *vg_object_code_symbol(const struct vg_object_code *code, const char *expression)
{
	for (size_t i = 0; code && expression && i < code->symbol_count; i++)
		if (strcmp(code->symbols[i].expression, expression) == 0)
			return code->symbols[i].symbol;
	return NULL;
}
