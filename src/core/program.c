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

	// What a tool was at when this process was forked, it cannot give back.
	if (vg_mutex_take(&program->compiling))
		drop_native(program);
	vg_mutex_give(&program->compiling);
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

// With a zero byte behind; NULL if there is no memory.
static char *copy(const void *data, size_t size)
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
		module->data = copy(source->data, source->size);
		module->size = source->size;
		if (!module->name || !module->data)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for source \"%s\"", source->name);
	}
	return program->modules ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for sources");
}

// PTX: a linker of this one code.
static enum vg_status create_linker(struct vg_program *program, const struct vg_program_options *options)
{
	struct vg_linker_options link = core_program_link_options(options);
	struct core_compiled text = {0};
	struct vg_object_code *ptx;

	enum vg_status status = core_code_check(VG_CODE_PTX, program->source, program->source_size);
	if (status)
		return status;
	text.size = strlen(program->source); // a terminator may have been counted
	text.data = copy(program->source, text.size);
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
	enum vg_status status;

	if (program->type == VG_SOURCE_PTX) {
		status = create_linker(program, options);
		program->backend = vg_linker_backend(program->linker);
	} else {
		status = program->type == VG_SOURCE_CXX ? core_nvrtc_find() : core_nvvm_find();
		program->backend = program->type == VG_SOURCE_CXX ? VG_BACKEND_NVRTC : VG_BACKEND_NVVM;
	}
	return status;
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
	enum vg_status status = check_source(type, name, source, source_size);
	if (status)
		return status;
	struct vg_program *program = calloc(1, sizeof *program);
	if (!program)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a program");
	core_object_init(&program->object, &program_class);
	program->type = type;
	program->name = strdup(name);
	program->source = copy(source, source_size);
	program->source_size = source_size;
	if (!program->name || !program->source)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for %zu bytes of source", source_size);
	if (status == VG_OK)
		status = core_program_options(program, &o);
	if (status == VG_OK)
		status = copy_modules(program, &o);
	if (status == VG_OK)
		status = find_backend(program, &o);
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

// The result in the cache's or the tool's words; the program is locked.
static enum vg_status produce(struct vg_program *program, enum vg_code_type target,
			      const struct vg_compile_options *options, struct core_compiled *compiled)
{
	struct core_arguments arguments = {0};
	struct core_cache_key key = {0};

	core_program_arguments(program, target, &arguments);
	enum vg_status status = arguments.failed ? vg_fail(VG_NO_MEMORY, 0, "no memory for arguments") : VG_OK;
	if (status == VG_OK && options->cache)
		status = core_cache_key_make(program, target, &arguments, options, &key);
	struct vg_compile_cache *cache = key.of_a_moment ? NULL : options->cache;
	if (status == VG_OK && !(cache && core_cache_get(cache, &key, compiled))) {
		if (program->linker)
			status = core_linker_link(program->linker, target, compiled);
		else if (program->type == VG_SOURCE_CXX)
			status = core_nvrtc_compile(program, target, &arguments, &options->name_expressions, compiled);
		else
			status = core_nvvm_compile(program, target, &arguments, compiled);
		if (status == VG_OK && cache)
			core_cache_put(cache, &key, compiled);
	}
	core_cache_key_finish(&key);
	core_arguments_finish(&arguments);
	return status;
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
	enum vg_status status = check_target(program, target);
	if (status == VG_OK)
		status = check_names(program, &o.name_expressions);
	if (status)
		return status;
	if (vg_mutex_take(&program->compiling)) {
		drop_native(program);
		free(program->log);
		program->log = NULL;
		program->pch_status = VG_PCH_NONE;
		status = produce(program, target, &o, &compiled);
	} else {
		status = vg_fail(VG_STATE, 0,
				 "another thread was compiling program \"%s\" when this process was forked: create "
				 "one here",
				 program->name);
	}
	vg_mutex_give(&program->compiling);
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
