// Options of compilers and linkers, as tables of fields from which arguments and messages are made. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "virgate/device.h"
#include "virgate/toolchain.h"

// A list of arguments that grows. `failed` says that an allocation failed; check it before use.
struct core_arguments {
	char **texts;
	size_t count;
	bool failed;
};
__attribute__((format(printf, 2, 3))) void core_arguments_add(struct core_arguments *arguments, const char *format,
							      ...);
void core_arguments_copy(struct core_arguments *arguments, const struct core_arguments *from);
void core_arguments_finish(struct core_arguments *arguments);

enum core_option_kind {
	OPTION_FLAG,	// int: the argument alone
	OPTION_CHOICE,	// enum vg_choice: the argument and "true" or "false"
	OPTION_SWITCH,	// enum vg_choice: the argument and 1 or 0
	OPTION_TEXT,	// const char *
	OPTION_TEXTS,	// struct vg_texts: an argument each
	OPTION_MACROS,	// struct vg_texts, each NAME or NAME=VALUE
	OPTION_NUMBER,	// int, from 1
	OPTION_LEVEL,	// int, 3, or VG_OPTIMIZE_NOT for 0
	OPTION_THREADS, // int, from 1, or VG_SPLIT_ALL for 0
	OPTION_NUMBERS, // struct vg_numbers
};

struct core_option {
	const char *field;
	size_t offset;
	enum core_option_kind kind;
	unsigned traits; // flags that its table defines
	const char *argument;
};

bool core_option_given(const struct core_option *option, const void *options);
// INVALID, naming the field, if its value is invalid.
enum vg_status core_option_check(const struct core_option *option, const void *options);
// Adds the arguments of an option that is set.
void core_option_add(const struct core_option *option, const void *options, struct core_arguments *arguments);
// INVALID with "the following options are not supported by WHO: a, b" if options are set that have none of `traits`.
enum vg_status core_options_refuse(const struct core_option *table, size_t count, const void *options, unsigned traits,
				   const char *who);

enum { CORE_ARCHITECTURE = 32 };
// Finds the architecture, such as "sm_90": `arch` if it is not NULL, else the device's, else device 0's. INVALID
// (malformed), NO_DRIVER, NOT_FOUND.
enum vg_status core_find_architecture(const char *arch, const struct vg_device *device,
				      char ret_text[CORE_ARCHITECTURE]);
