#include "core/program.h"

#include "core/compile_cache.h"
#include "core/error.h"
#include "core/linker.h"
#include "core/object_code.h"

#include <stdlib.h>
#include <string.h>

static void drop_native(struct vg_program *program)
{
	if (program->backend == VG_BACKEND_NVRTC)
		core_nvrtc_drop(program);
	else if (program->backend == VG_BACKEND_NVVM)
		core_nvvm_drop(program);
}

static enum vg_status close_program(struct core_object *object)
{
	struct vg_program *program = (struct vg_program *)object;

	// vg_mutex_lock() returns false if another thread was compiling when this process was forked. Then the state of
	// the compiler may be inconsistent, so the compiler's object is leaked.
	if (vg_mutex_lock(&program->compiling))
		drop_native(program);
	vg_mutex_unlock(&program->compiling);
	return VG_OK;
}

static void free_program(struct core_object *object)
{
	struct vg_program *program = (struct vg_program *)object;

	for (size_t i = 0; i < program->module_count; i++) {
		free(program->modules[i].name);
		free(program->modules[i].data);
	}
	vg_linker_destroy(program->linker);
	core_arguments_finish(&program->arguments);
	core_arguments_finish(&program->shown);
	free(program->modules);
	free(program->log);
	free(program->name);
	free(program->source);
	free(program);
}

static const struct core_class program_class = {"program", close_program, free_program};

// Copies bytes, and appends a zero byte. NULL: out of memory.
static char *copy_bytes(const void *data, size_t size)
{
	char *result = malloc(size + 1);

	if (result) {
		memcpy(result, data, size);
		result[size] = '\0';
	}
	return result;
}

static enum vg_status check_source(enum vg_source_type type, const char *what, const void *data, size_t size)
{
	if (!data || !size)
		return vg_fail(VG_INVALID, 0, "%s has no source: %zu bytes at %s", what, size,
			       data ? "an address" : "NULL");
	if (type == VG_SOURCE_CXX && memchr(data, 0, size) && memchr(data, 0, size) != (const char *)data + size - 1)
		return vg_fail(VG_INVALID, 0, "%s has a zero byte in its source", what);
	return VG_OK;
}

static enum vg_status copy_modules(struct vg_program *program, const struct vg_program_options *options)
{
	if (!options->extra_source_count)
		return VG_OK;
	if (!options->extra_sources)
		return vg_fail(VG_INVALID, 0, "option extra_sources is NULL, but extra_source_count is %zu",
			       options->extra_source_count);
	program->modules = calloc(options->extra_source_count, sizeof *program->modules);
	for (size_t i = 0; program->modules && i < options->extra_source_count; i++) {
		const struct vg_source *source = &options->extra_sources[i];
		CORE_TRY(source->name ? check_source(VG_SOURCE_NVVM, source->name, source->data, source->size)
				      : vg_fail(VG_INVALID, 0, "extra_sources[%zu] has no name", i));
		struct core_program_module *module = &program->modules[program->module_count++];
		module->name = strdup(source->name);
		module->data = copy_bytes(source->data, source->size);
		module->size = source->size;
		if (!module->name || !module->data)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for source \"%s\"", source->name);
	}
	return program->modules ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for sources");
}

// Creates the linker that compiles a PTX program. The PTX is the linker's only input.
static enum vg_status create_linker(struct vg_program *program, const struct vg_program_options *options)
{
	struct vg_linker_options link = core_program_link_options(options);
	struct core_compiled text = {0};
	struct vg_object_code *ptx;

	enum vg_status status = core_code_check(VG_CODE_PTX, program->source, program->source_size);
	if (status)
		return status;
	text.size = strlen(program->source); // use strlen(), because `source_size` may include the zero byte
	text.data = copy_bytes(program->source, text.size);
	if (!text.data)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of PTX", text.size);
	CORE_TRY(core_object_code_adopt(status, VG_CODE_PTX, program->name, &text, &ptx));
	link.name = program->name;
	status = vg_linker_create(&ptx, 1, &link, &program->linker);
	vg_object_code_destroy(ptx);
	return status;
}

static enum vg_status find_backend(struct vg_program *program, const struct vg_program_options *options)
{
	if (program->type == VG_SOURCE_CXX) {
		program->backend = VG_BACKEND_NVRTC;
		return core_nvrtc_find();
	}
	if (program->type == VG_SOURCE_NVVM) {
		program->backend = VG_BACKEND_NVVM;
		return core_nvvm_find();
	}
	CORE_TRY(create_linker(program, options));
	program->backend = vg_linker_backend(program->linker);
	return VG_OK;
}

// Fills in a new program. On failure the caller releases it.
static enum vg_status fill_program(struct vg_program *program, const char *name, const void *source, size_t size,
				   const struct vg_program_options *options)
{
	program->name = strdup(name);
	program->source = copy_bytes(source, size);
	program->source_size = size;
	if (!program->name || !program->source)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of source", size);
	CORE_TRY(core_program_options(program, options));
	CORE_TRY(copy_modules(program, options));
	return find_backend(program, options);
}

enum vg_status vg_program_create(enum vg_source_type type, const void *source, size_t source_size,
				 const struct vg_program_options *options, struct vg_program **ret_program)
{
	VG_ENTRY();
	struct vg_program_options o;

	CORE_NEEDED(source);
	CORE_NEEDED(ret_program);
	CORE_OPTIONS(o, options);
	if (type != VG_SOURCE_CXX && type != VG_SOURCE_PTX && type != VG_SOURCE_NVVM)
		return vg_fail(VG_INVALID, 0, "unsupported source type %d: there are CUDA C++, PTX and NVVM IR",
			       (int)type);
	if (o.name && !*o.name)
		return vg_fail(VG_INVALID, 0, "option name is empty");
	const char *name = o.name ? o.name : "default_program";
	CORE_TRY(check_source(type, name, source, source_size));
	struct vg_program *program = calloc(1, sizeof *program);
	if (!program)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a program");
	core_object_init(&program->object, &program_class);
	program->type = type;
	enum vg_status status = fill_program(program, name, source, source_size, &o);
	if (status)
		core_object_release(&program->object);
	else
		*ret_program = program;
	return status;
}

enum vg_status vg_program_close(struct vg_program *program)
{
	VG_ENTRY();
	CORE_NEEDED(program);
	return core_object_close(&program->object);
}

void vg_program_destroy(struct vg_program *program)
{
	core_object_release(program ? &program->object : NULL);
}

static enum vg_status check_target(const struct vg_program *program, enum vg_code_type target)
{
	static const struct {
		const char *who, *targets;
		unsigned set;
	} backends[] = {
		[VG_BACKEND_NVRTC] = {"NVRTC", "PTX, cubin, LTO-IR",
				      1u << VG_CODE_PTX | 1u << VG_CODE_CUBIN | 1u << VG_CODE_LTOIR},
		[VG_BACKEND_NVVM] = {"NVVM", "PTX, LTO-IR", 1u << VG_CODE_PTX | 1u << VG_CODE_LTOIR},
		[VG_BACKEND_NVJITLINK] = {"nvJitLink", "cubin, PTX", 1u << VG_CODE_CUBIN | 1u << VG_CODE_PTX},
		[VG_BACKEND_DRIVER] = {"the driver's linker", "cubin, PTX", 1u << VG_CODE_CUBIN | 1u << VG_CODE_PTX},
	};
	const char *name = core_code_type_name(target);

	if (name && (backends[program->backend].set & 1u << target))
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "unsupported target %s (%d) for %s: supported are %s", name ? name : "type",
		       (int)target, backends[program->backend].who, backends[program->backend].targets);
}

static enum vg_status check_names(const struct vg_program *program, const struct vg_texts *names)
{
	if (!names->count)
		return VG_OK;
	if (program->type != VG_SOURCE_CXX)
		return vg_fail(VG_INVALID, 0, "name_expressions are of CUDA C++ only");
	for (size_t i = 0; i < names->count; i++)
		if (!names->values || !names->values[i] || !*names->values[i])
			return vg_fail(VG_INVALID, 0, "name_expressions: %zu of %zu is empty", i, names->count);
	return VG_OK;
}

static enum vg_status run_backend(struct vg_program *program, enum vg_code_type target,
				  const struct core_arguments *arguments, const struct vg_texts *names,
				  struct core_compiled *compiled)
{
	if (program->linker)
		return core_linker_link(program->linker, target, compiled);
	if (program->type == VG_SOURCE_CXX)
		return core_nvrtc_compile(program, target, arguments, names, compiled);
	return core_nvvm_compile(program, target, arguments, compiled);
}

// Reads the result from the cache, or compiles the program and stores the result. Call with the program locked.
static enum vg_status compile_or_load(struct vg_program *program, enum vg_code_type target,
				      const struct vg_compile_options *options, struct core_compiled *compiled)
{
	__attribute__((cleanup(core_arguments_finish))) struct core_arguments arguments = {0};
	__attribute__((cleanup(core_cache_key_finish))) struct core_cache_key key = {0};

	core_program_arguments(program, target, &arguments);
	if (arguments.failed)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for arguments");
	if (!options->cache)
		return run_backend(program, target, &arguments, &options->name_expressions, compiled);
	CORE_TRY(core_cache_key_make(program, target, &arguments, options, &key));
	struct vg_compile_cache *cache = key.has_time ? NULL : options->cache;
	if (cache && core_cache_get(cache, &key, compiled))
		return VG_OK;
	CORE_TRY(run_backend(program, target, &arguments, &options->name_expressions, compiled));
	if (cache)
		core_cache_put(cache, &key, compiled);
	return VG_OK;
}

enum vg_status vg_program_compile(struct vg_program *program, enum vg_code_type target,
				  const struct vg_compile_options *options, struct vg_object_code **ret_code)
{
	VG_ENTRY();
	struct core_compiled compiled = {0};
	struct vg_compile_options o;

	CORE_USABLE(program, "program");
	CORE_NEEDED(ret_code);
	CORE_OPTIONS(o, options);
	if (o.cache)
		CORE_USABLE(o.cache, "cache");
	if (!o.digest != !o.digest_size)
		return vg_fail(VG_INVALID, 0, "digest has %zu bytes at %s", o.digest_size,
			       o.digest ? "an address" : "NULL");
	CORE_TRY(check_target(program, target));
	CORE_TRY(check_names(program, &o.name_expressions));
	enum vg_status status;
	if (vg_mutex_lock(&program->compiling)) {
		drop_native(program);
		free(program->log);
		program->log = NULL;
		program->pch_status = VG_PCH_NONE;
		status = compile_or_load(program, target, &o, &compiled);
	} else {
		status = vg_fail(VG_STATE, 0,
				 "another thread was compiling program \"%s\" when this process was forked: create "
				 "one here",
				 program->name);
	}
	vg_mutex_unlock(&program->compiling);
	return core_object_code_adopt(status, target, program->name, &compiled, ret_code);
}

enum vg_backend vg_program_backend(const struct vg_program *program)
{
	return program ? program->backend : (enum vg_backend)0;
}

const char *vg_program_log(const struct vg_program *program)
{
	if (program && program->linker) {
		const char *errors = vg_linker_error_log(program->linker);
		return *errors ? errors : vg_linker_info_log(program->linker);
	}
	return program && program->log ? program->log : "";
}

enum vg_pch_status vg_program_pch_status(const struct vg_program *program)
{
	return program ? program->pch_status : VG_PCH_NONE;
}

size_t vg_program_arguments(struct vg_program *program, enum vg_code_type target, const char *const **ret_arguments)
{
	if (program && program->linker)
		return vg_linker_arguments(program->linker, target, ret_arguments);
	if (program) {
		core_arguments_finish(&program->shown);
		core_program_arguments(program, target, &program->shown);
	}
	if (ret_arguments)
		*ret_arguments = program ? (const char *const *)program->shown.texts : NULL;
	return program ? program->shown.count : 0;
}

void *vg_program_handle(const struct vg_program *program)
{
	return program && !program->object.closed ? program->native : NULL;
}
