#include "core/linker.h"

#include "base/log.h"
#include "core/device.h"
#include "core/error.h"
#include "core/object_code.h"
#include "driver/toolchain.h"

#include <stdlib.h>
#include <string.h>

static void drop_native(struct vg_linker *linker)
{
	if (linker->backend == VG_BACKEND_NVJITLINK)
		core_nvjitlink_drop(linker);
	else if (linker->backend == VG_BACKEND_DRIVER)
		core_driver_link_drop(linker);
}

static enum vg_status close_linker(struct core_object *object)
{
	struct vg_linker *linker = (struct vg_linker *)object;

	// If another thread was linking when this process was forked, the tool may be left in an inconsistent state.
	if (vg_mutex_lock(&linker->linking))
		drop_native(linker);
	vg_mutex_unlock(&linker->linking);
	return VG_OK;
}

static void free_linker(struct core_object *object)
{
	struct vg_linker *linker = (struct vg_linker *)object;

	for (size_t i = 0; i < linker->code_count; i++)
		core_object_release(&linker->codes[i]->object);
	core_arguments_finish(&linker->arguments);
	core_arguments_finish(&linker->shown);
	free(linker->codes);
	free(linker->error_log);
	free(linker->info_log);
	free(linker->name);
	free(linker);
}

static const struct core_class linker_class = {"linker", close_linker, free_linker};

static bool has_nvjitlink(char *problem, size_t capacity)
{
	const struct vg_nvjitlink *nvjitlink;

	return vg_nvjitlink_load(&nvjitlink, problem, capacity) == 0;
}

enum vg_backend vg_linker_default_backend(void)
{
	char problem[1000];

	if (has_nvjitlink(problem, sizeof problem))
		return VG_BACKEND_NVJITLINK;
	vg_log(VG_LOG_WARNING, "the driver's linker is used instead of nvJitLink: %s", problem);
	return VG_BACKEND_DRIVER;
}

static enum vg_status choose_backend(struct vg_linker *linker, enum vg_backend asked)
{
	char problem[1000];

	if (asked && asked != VG_BACKEND_NVJITLINK && asked != VG_BACKEND_DRIVER)
		return vg_fail(VG_INVALID, 0, "option backend: %d does not link: nvJitLink and the driver do",
			       (int)asked);
	if (asked == VG_BACKEND_NVJITLINK && !has_nvjitlink(problem, sizeof problem))
		return vg_fail(VG_NOT_FOUND, 0, "%s", problem);
	linker->backend = asked ? asked : vg_linker_default_backend();
	return linker->backend == VG_BACKEND_DRIVER ? core_open() : VG_OK;
}

static enum vg_status retain_codes(struct vg_linker *linker, struct vg_object_code *const *codes, size_t count,
				   bool with_lto)
{
	linker->codes = calloc(count, sizeof(struct vg_object_code *));
	if (!linker->codes)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu object codes", count);
	for (size_t i = 0; i < count; i++) {
		CORE_USABLE(codes[i], "an object code");
		if (codes[i]->type == VG_CODE_LTOIR && linker->backend == VG_BACKEND_DRIVER)
			return vg_fail(VG_INVALID, 0,
				       "object code %zu (%s) is LTO-IR, which the driver's linker does not take: "
				       "nvJitLink does",
				       i, codes[i]->title);
		// nvJitLink would ignore this input and report success.
		if (codes[i]->type == VG_CODE_LTOIR && !with_lto)
			return vg_fail(VG_INVALID, 0,
				       "object code %zu (%s) is LTO-IR: set link_time_optimization to link it", i,
				       codes[i]->title);
		core_object_retain(&codes[i]->object);
		linker->codes[linker->code_count++] = codes[i];
	}
	return VG_OK;
}

// Fills in a new linker. On failure the caller releases it.
static enum vg_status fill_linker(struct vg_linker *linker, struct vg_object_code *const *codes, size_t count,
				  const struct vg_linker_options *options)
{
	linker->device = options->device;
	linker->name = strdup(options->name ? options->name : "<default linker>");
	if (!linker->name)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a linker");
	CORE_TRY(choose_backend(linker, options->backend));
	CORE_TRY(retain_codes(linker, codes, count, options->link_time_optimization != 0));
	return core_linker_options(linker, options);
}

enum vg_status vg_linker_create(struct vg_object_code *const *codes, size_t code_count,
				const struct vg_linker_options *options, struct vg_linker **ret_linker)
{
	VG_ENTRY();
	struct vg_linker_options o;

	CORE_NEEDED(ret_linker);
	CORE_OPTIONS(o, options);
	if (!codes || !code_count)
		return vg_fail(VG_INVALID, 0, "there is no object code to link: at least one is needed");
	if (o.name && !*o.name)
		return vg_fail(VG_INVALID, 0, "option name is empty");
	struct vg_linker *linker = calloc(1, sizeof *linker);
	if (!linker)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a linker");
	core_object_init(&linker->object, &linker_class);
	enum vg_status status = fill_linker(linker, codes, code_count, &o);
	if (status) {
		core_object_release(&linker->object);
		return status;
	}
	*ret_linker = linker;
	return VG_OK;
}

enum vg_status vg_linker_close(struct vg_linker *linker)
{
	VG_ENTRY();
	CORE_NEEDED(linker);
	return core_object_close(&linker->object);
}

void vg_linker_destroy(struct vg_linker *linker)
{
	core_object_release(linker ? &linker->object : NULL);
}

static enum vg_status check_target(const struct vg_linker *linker, enum vg_code_type target)
{
	const char *name = core_code_type_name(target);

	if (target != VG_CODE_CUBIN && target != VG_CODE_PTX)
		return vg_fail(VG_INVALID, 0, "unsupported target %s (%d) for a linker: supported are cubin, PTX",
			       name ? name : "type", (int)target);
	if (target == VG_CODE_PTX && linker->backend == VG_BACKEND_DRIVER)
		return vg_fail(VG_UNSUPPORTED, 0, "the driver's linker makes cubins only: nvJitLink makes PTX");
	if (target == VG_CODE_PTX && !linker->link_time_optimization)
		return vg_fail(VG_INVALID, 0, "PTX is made by link-time optimisation only: set link_time_optimization");
	if (target == VG_CODE_CUBIN && linker->ptx)
		return vg_fail(VG_INVALID, 0, "option ptx is set: this linker makes PTX, no cubin");
	return VG_OK;
}

enum vg_status core_linker_link(struct vg_linker *linker, enum vg_code_type target, struct core_compiled *ret_compiled)
{
	enum vg_status status = check_target(linker, target);
	if (status)
		return status;
	if (vg_mutex_lock(&linker->linking)) {
		drop_native(linker);
		free(linker->error_log);
		free(linker->info_log);
		linker->error_log = linker->info_log = NULL;
		status = linker->backend == VG_BACKEND_NVJITLINK ? core_nvjitlink_link(linker, target, ret_compiled)
								 : core_driver_link(linker, ret_compiled);
	} else {
		status = vg_fail(
			VG_STATE, 0,
			"another thread was linking with \"%s\" when this process was forked: create a linker here",
			linker->name);
	}
	vg_mutex_unlock(&linker->linking);
	return status;
}

enum vg_status vg_linker_link(struct vg_linker *linker, enum vg_code_type target, struct vg_object_code **ret_code)
{
	VG_ENTRY();
	struct core_compiled compiled = {0};

	CORE_USABLE(linker, "linker");
	CORE_NEEDED(ret_code);
	enum vg_status status = core_linker_link(linker, target, &compiled);
	return core_object_code_adopt(status, target, linker->name, &compiled, ret_code);
}

enum vg_backend vg_linker_backend(const struct vg_linker *linker)
{
	return linker ? linker->backend : (enum vg_backend)0;
}

const char *vg_linker_error_log(const struct vg_linker *linker)
{
	return linker && linker->error_log ? linker->error_log : "";
}

const char *vg_linker_info_log(const struct vg_linker *linker)
{
	return linker && linker->info_log ? linker->info_log : "";
}

size_t vg_linker_arguments(struct vg_linker *linker, enum vg_code_type target, const char *const **ret_arguments)
{
	if (linker) {
		core_arguments_finish(&linker->shown);
		core_linker_arguments(linker, target, &linker->shown);
	}
	if (ret_arguments)
		*ret_arguments = linker && linker->shown.count ? (const char *const *)linker->shown.texts : NULL;
	return linker ? linker->shown.count : 0;
}

void *vg_linker_handle(const struct vg_linker *linker)
{
	return linker && !linker->object.closed ? linker->native : NULL;
}
