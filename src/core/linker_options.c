// Defines the table of a linker's options, and makes the arguments for each back end.
#include "base/log.h"
#include "core/device.h"
#include "core/error.h"
#include "core/linker.h"

#include <stdlib.h>
#include <string.h>

enum { NVJITLINK = 1, DRIVER = 2, IGNORED = 4 }; // IGNORED: an option that only the linkers of older drivers had

// nvJitLink passes ftz, prec_div, prec_sqrt and fma to NVVM, which accepts 1 and 0 only: with true or false every
// link-time optimisation fails.
#define ROW(field, kind, traits, argument)                                                         \
	{                                                                                          \
#field, offsetof(struct vg_linker_options, field), OPTION_##kind, traits, argument \
	}
static const struct core_option table[] = {
	ROW(max_register_count, NUMBER, NVJITLINK | DRIVER, "-maxrregcount="),
	ROW(time, FLAG, NVJITLINK, "-time"),
	ROW(verbose, FLAG, NVJITLINK | DRIVER, "-verbose"),
	ROW(link_time_optimization, FLAG, NVJITLINK | DRIVER, "-lto"),
	ROW(ptx, FLAG, NVJITLINK, "-ptx"),
	ROW(optimization_level, LEVEL, NVJITLINK | DRIVER, "-O"),
	ROW(debug, FLAG, NVJITLINK | DRIVER, "-g"),
	ROW(lineinfo, FLAG, NVJITLINK | DRIVER, "-lineinfo"),
	ROW(ftz, SWITCH, NVJITLINK | IGNORED, "-ftz="),
	ROW(prec_div, SWITCH, NVJITLINK | IGNORED, "-prec-div="),
	ROW(prec_sqrt, SWITCH, NVJITLINK | IGNORED, "-prec-sqrt="),
	ROW(fma, SWITCH, NVJITLINK | IGNORED, "-fma="),
	ROW(kernels_used, TEXTS, NVJITLINK | IGNORED, "-kernels-used="),
	ROW(variables_used, TEXTS, NVJITLINK | IGNORED, "-variables-used="),
	ROW(optimize_unused_variables, FLAG, NVJITLINK | IGNORED, "-optimize-unused-variables"),
	ROW(ptxas_options, TEXTS, NVJITLINK, "-Xptxas="),
	ROW(split_compile, THREADS, NVJITLINK, "-split-compile="),
	ROW(split_compile_extended, THREADS, NVJITLINK, "-split-compile-extended="),
	ROW(no_cache, FLAG, NVJITLINK | DRIVER, "-no-cache"),
};
enum { ROWS = sizeof table / sizeof *table };

static void add_jit(struct vg_linker *linker, CUjit_option option, unsigned value)
{
	linker->jit[linker->jit_count++] = (struct core_jit){option, value};
}

// Returns the driver's target for an architecture: 90 for "sm_90", with flags for "sm_90a" and "sm_100f".
static unsigned find_jit_target(const char *arch)
{
	char *suffix;
	unsigned number = (unsigned)strtoul(strchr(arch, '_') + 1, &suffix, 10);

	return number + (*suffix == 'a'	  ? CU_COMPUTE_ACCELERATED_TARGET_BASE
			 : *suffix == 'f' ? CU_COMPUTE_FAMILY_TARGET_BASE
					  : 0);
}

static void add_jit_options(struct vg_linker *linker, const struct vg_linker_options *o, const char *arch)
{
	add_jit(linker, CU_JIT_TARGET, find_jit_target(arch));
	if (o->max_register_count)
		add_jit(linker, CU_JIT_MAX_REGISTERS, (unsigned)o->max_register_count);
	if (o->verbose)
		add_jit(linker, CU_JIT_LOG_VERBOSE, 1);
	if (o->link_time_optimization)
		add_jit(linker, CU_JIT_LTO, 1);
	if (o->optimization_level)
		add_jit(linker, CU_JIT_OPTIMIZATION_LEVEL,
			o->optimization_level < 0 ? 0 : (unsigned)o->optimization_level);
	if (o->debug)
		add_jit(linker, CU_JIT_GENERATE_DEBUG_INFO, 1);
	if (o->lineinfo)
		add_jit(linker, CU_JIT_GENERATE_LINE_INFO, 1);
	if (o->no_cache)
		add_jit(linker, CU_JIT_CACHE_MODE, CU_JIT_CACHE_OPTION_NONE);
	for (size_t i = 0; i < ROWS; i++)
		if ((table[i].traits & IGNORED) && core_option_given(&table[i], o))
			vg_log(VG_LOG_WARNING, "linker \"%s\": the driver's linker ignores the option %s", linker->name,
			       table[i].field);
}

enum vg_status core_linker_options(struct vg_linker *linker, const struct vg_linker_options *options)
{
	char arch[CORE_ARCHITECTURE];
	for (size_t i = 0; i < ROWS; i++)
		CORE_TRY(core_option_check(&table[i], options));
	if (linker->backend == VG_BACKEND_DRIVER)
		CORE_TRY(core_options_refuse(table, ROWS, options, DRIVER | IGNORED, "the driver's linker"));
	if (options->ptx && !options->link_time_optimization)
		return vg_fail(VG_INVALID, 0, "option ptx needs link-time optimisation: set link_time_optimization");
	CORE_TRY(core_find_architecture(options->arch, options->device, arch));
	linker->link_time_optimization = options->link_time_optimization != 0;
	linker->ptx = options->ptx != 0;
	if (linker->backend == VG_BACKEND_DRIVER) {
		add_jit_options(linker, options, arch);
		return VG_OK;
	}
	core_arguments_add(&linker->arguments, "-arch=%s", arch);
	for (size_t i = 0; i < ROWS; i++)
		core_option_add(&table[i], options, &linker->arguments);
	return linker->arguments.failed ? vg_fail(VG_NO_MEMORY, 0, "no memory for a linker's options") : VG_OK;
}

void core_linker_arguments(const struct vg_linker *linker, enum vg_code_type target,
			   struct core_arguments *ret_arguments)
{
	core_arguments_copy(ret_arguments, &linker->arguments);
	if (linker->backend == VG_BACKEND_NVJITLINK && target == VG_CODE_PTX && !linker->ptx)
		core_arguments_add(ret_arguments, "-ptx");
}
