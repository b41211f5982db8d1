// Defines the table of a program's options, and makes the arguments for each back end.
#include "core/error.h"
#include "core/program.h"
#include "virgate/linker.h"

#include <stdlib.h>
#include <string.h>

// FILES: the option makes the compiler read files besides the source, or write files.
enum { NVRTC = 1, NVVM = 2, PTX = 4, FILES = 8 };

#define ROW(field, kind, traits, argument)                                                          \
	{                                                                                           \
#field, offsetof(struct vg_program_options, field), OPTION_##kind, traits, argument \
	}
static const struct core_option table[] = {
	ROW(relocatable_device_code, CHOICE, NVRTC, "--relocatable-device-code="),
	ROW(extensible_whole_program, FLAG, NVRTC, "--extensible-whole-program"),
	ROW(debug, FLAG, NVRTC | NVVM | PTX, "--device-debug"),
	ROW(lineinfo, FLAG, NVRTC | PTX, "--generate-line-info"),
	ROW(ptxas_options, TEXTS, NVRTC | PTX, "--ptxas-options="),
	ROW(max_register_count, NUMBER, NVRTC | PTX, "--maxrregcount="),
	ROW(ftz, CHOICE, NVRTC | NVVM | PTX, "--ftz="),
	ROW(prec_sqrt, CHOICE, NVRTC | NVVM | PTX, "--prec-sqrt="),
	ROW(prec_div, CHOICE, NVRTC | NVVM | PTX, "--prec-div="),
	ROW(fma, CHOICE, NVRTC | NVVM | PTX, "--fmad="),
	ROW(use_fast_math, FLAG, NVRTC, "--use_fast_math"),
	ROW(extra_device_vectorization, FLAG, NVRTC, "--extra-device-vectorization"),
	ROW(link_time_optimization, FLAG, NVRTC | PTX, "--dlink-time-opt"),
	ROW(gen_opt_lto, FLAG, NVRTC, "--gen-opt-lto"),
	ROW(define_macro, MACROS, NVRTC, "--define-macro="),
	ROW(undefine_macro, TEXTS, NVRTC, "--undefine-macro="),
	ROW(include_path, TEXTS, NVRTC | FILES, "--include-path="),
	ROW(pre_include, TEXTS, NVRTC | FILES, "--pre-include="),
	ROW(no_source_include, FLAG, NVRTC, "--no-source-include"),
	ROW(std, TEXT, NVRTC, "--std="),
	ROW(builtin_move_forward, CHOICE, NVRTC, "--builtin-move-forward="),
	ROW(builtin_initializer_list, CHOICE, NVRTC, "--builtin-initializer-list="),
	ROW(disable_warnings, FLAG, NVRTC, "--disable-warnings"),
	ROW(restrict_pointers, FLAG, NVRTC, "--restrict"),
	ROW(device_as_default_execution_space, FLAG, NVRTC, "--device-as-default-execution-space"),
	ROW(device_int128, FLAG, NVRTC, "--device-int128"),
	ROW(device_float128, FLAG, NVRTC, "--device-float128"),
	ROW(optimization_info, TEXT, NVRTC, "--optimization-info="),
	ROW(no_display_error_number, FLAG, NVRTC, "--no-display-error-number"),
	ROW(diag_error, NUMBERS, NVRTC, "--diag-error="),
	ROW(diag_suppress, NUMBERS, NVRTC, "--diag-suppress="),
	ROW(diag_warn, NUMBERS, NVRTC, "--diag-warn="),
	ROW(brief_diagnostics, CHOICE, NVRTC, "--brief-diagnostics="),
	ROW(time, TEXT, NVRTC | PTX | FILES, "--time="),
	ROW(split_compile, THREADS, NVRTC | PTX, "--split-compile="),
	ROW(fdevice_syntax_only, FLAG, NVRTC, "--fdevice-syntax-only"),
	ROW(minimal, FLAG, NVRTC, "--minimal"),
	ROW(no_cache, FLAG, NVRTC | PTX, "--no-cache"),
	ROW(fdevice_time_trace, TEXT, NVRTC | FILES, "--fdevice-time-trace="),
	ROW(frandom_seed, TEXT, NVRTC, "--frandom-seed="),
	ROW(ofast_compile, TEXT, NVRTC, "--Ofast-compile="),
	ROW(pch, FLAG, NVRTC | FILES, "--pch"),
	ROW(create_pch, TEXT, NVRTC | FILES, "--create-pch="),
	ROW(use_pch, TEXT, NVRTC | FILES, "--use-pch="),
	ROW(pch_dir, TEXT, NVRTC | FILES, "--pch-dir="),
	ROW(pch_verbose, CHOICE, NVRTC, "--pch-verbose="),
	ROW(pch_messages, CHOICE, NVRTC, "--pch-messages="),
	ROW(instantiate_templates_in_pch, CHOICE, NVRTC, "--instantiate-templates-in-pch="),
	ROW(numba_debug, FLAG, NVRTC, "--numba-debug"),
};
// The options whose arguments the functions below make.
static const struct core_option by_hand[] = {
	ROW(device_code_optimize, CHOICE, NVRTC | NVVM, NULL),
	ROW(use_libdevice, FLAG, NVVM, NULL),
};
enum { ROWS = sizeof table / sizeof *table, ROWS_BY_HAND = sizeof by_hand / sizeof *by_hand };

static const struct {
	unsigned trait;
	const char *who;
} sources[] = {
	[VG_SOURCE_CXX] = {NVRTC, "NVRTC, which compiles CUDA C++"},
	[VG_SOURCE_PTX] = {PTX, "linkers, which compile PTX"},
	[VG_SOURCE_NVVM] = {NVVM, "NVVM"},
};

static enum vg_status check_options(const struct vg_program *program, const struct vg_program_options *o)
{
	static const char *const speeds[] = {"0", "min", "mid", "max"};
	bool known = !o->ofast_compile;

	for (size_t i = 0; i < ROWS; i++)
		CORE_TRY(core_option_check(&table[i], o));
	for (size_t i = 0; i < ROWS_BY_HAND; i++)
		CORE_TRY(core_option_check(&by_hand[i], o));
	CORE_TRY(core_options_refuse(table, ROWS, o, sources[program->type].trait, sources[program->type].who));
	CORE_TRY(core_options_refuse(by_hand, ROWS_BY_HAND, o, sources[program->type].trait,
				     sources[program->type].who));
	for (size_t i = 0; !known && i < sizeof speeds / sizeof *speeds; i++)
		known = strcmp(o->ofast_compile, speeds[i]) == 0;
	if (!known)
		return vg_fail(VG_INVALID, 0, "option ofast_compile: \"%s\": there are 0, min, mid and max",
			       o->ofast_compile);
	if ((o->extra_sources || o->extra_source_count) && program->type != VG_SOURCE_NVVM)
		return vg_fail(VG_INVALID, 0, "the following options are not supported by %s: extra_sources",
			       sources[program->type].who);
	return VG_OK;
}

static void add_nvrtc_arguments(struct core_arguments *arguments, const struct vg_program_options *o, const char *arch)
{
	core_arguments_add(arguments, "-arch=%s", arch);
	for (size_t i = 0; i < ROWS; i++)
		core_option_add(&table[i], o, arguments);
	if (o->device_code_optimize == VG_CHOICE_ON)
		core_arguments_add(arguments, "--dopt=on");
}

static void add_nvvm_arguments(struct core_arguments *arguments, const struct vg_program_options *o, const char *arch)
{
	const struct {
		const char *argument;
		enum vg_choice choice;
	} choices[] = {
		{"-ftz=", o->ftz}, {"-prec-sqrt=", o->prec_sqrt}, {"-prec-div=", o->prec_div}, {"-fma=", o->fma}};

	core_arguments_add(arguments, "-arch=compute_%s", strchr(arch, '_') + 1);
	if (o->debug)
		core_arguments_add(arguments, "-g");
	if (o->device_code_optimize)
		core_arguments_add(arguments, "-opt=%d", o->device_code_optimize == VG_CHOICE_ON ? 3 : 0);
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
		if (choices[i].choice)
			core_arguments_add(arguments, "%s%d", choices[i].argument, choices[i].choice == VG_CHOICE_ON);
}

enum vg_status core_program_options(struct vg_program *program, const struct vg_program_options *options)
{
	char arch[CORE_ARCHITECTURE];

	CORE_TRY(check_options(program, options));
	if (program->type != VG_SOURCE_PTX)
		CORE_TRY(core_find_architecture(options->arch, options->device, arch));
	if (program->type == VG_SOURCE_CXX)
		add_nvrtc_arguments(&program->arguments, options, arch);
	else if (program->type == VG_SOURCE_NVVM)
		add_nvvm_arguments(&program->arguments, options, arch);
	for (size_t i = 0; i < ROWS && !program->reads_files; i++)
		if ((table[i].traits & FILES) && core_option_given(&table[i], options))
			program->reads_files = table[i].field;
	program->use_libdevice = options->use_libdevice != 0;
	program->link_time_optimization = options->link_time_optimization != 0;
	program->pch = options->pch || options->create_pch;
	return program->arguments.failed ? vg_fail(VG_NO_MEMORY, 0, "no memory for a program's options") : VG_OK;
}

struct vg_linker_options core_program_link_options(const struct vg_program_options *options)
{
	return (struct vg_linker_options){
		.size = sizeof(struct vg_linker_options),
		.name = options->name,
		.device = options->device,
		.arch = options->arch,
		.max_register_count = options->max_register_count,
		.time = options->time != NULL,
		.link_time_optimization = options->link_time_optimization,
		.debug = options->debug,
		.lineinfo = options->lineinfo,
		.ftz = options->ftz,
		.prec_div = options->prec_div,
		.prec_sqrt = options->prec_sqrt,
		.fma = options->fma,
		.split_compile = options->split_compile,
		.ptxas_options = options->ptxas_options,
		.no_cache = options->no_cache,
	};
}

void core_program_arguments(const struct vg_program *program, enum vg_code_type target,
			    struct core_arguments *ret_arguments)
{
	core_arguments_copy(ret_arguments, &program->arguments);
	if (target != VG_CODE_LTOIR)
		return;
	if (program->type == VG_SOURCE_NVVM)
		core_arguments_add(ret_arguments, "-gen-lto");
	else if (program->type == VG_SOURCE_CXX && !program->link_time_optimization)
		core_arguments_add(ret_arguments, "--dlink-time-opt");
}
