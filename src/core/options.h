// Checks the options of compilers and linkers, and converts them to command-line arguments. For each structure of
// options, a table describes its fields. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "virgate/device.h"
#include "virgate/toolchain.h"

// A growing list of arguments. `failed`: an allocation failed; check this before using the list.
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
	OPTION_FLAG,	// int: adds the argument alone
	OPTION_CHOICE,	// enum vg_choice: adds the argument and "true" or "false"
	OPTION_SWITCH,	// enum vg_choice: adds the argument and 1 or 0
	OPTION_TEXT,	// const char *
	OPTION_TEXTS,	// struct vg_texts: adds an argument for each text
	OPTION_MACROS,	// struct vg_texts, each NAME or NAME=VALUE: adds a macro definition for each text
	OPTION_NUMBER,	// int, at least 1
	OPTION_LEVEL,	// int: 3, or VG_OPTIMIZE_NOT, which is passed to the tool as 0
	OPTION_THREADS, // int, at least 1; or VG_SPLIT_ALL, which is passed to the tool as 0
	OPTION_NUMBERS, // struct vg_numbers
};

struct core_option {
	const char *field;
	size_t offset;
	enum core_option_kind kind;
	unsigned traits; // flags whose meaning each table defines, such as which compilers have the option
	const char *argument;
};

bool core_option_given(const struct core_option *option, const void *options);
// Returns INVALID, naming the field, if the value of the field is invalid.
enum vg_status core_option_check(const struct core_option *option, const void *options);
// Adds the arguments of an option if the option is set.
void core_option_add(const struct core_option *option, const void *options, struct core_arguments *arguments);
// Returns INVALID with "the following options are not supported by WHO: a, b" if an option without any of `traits` is
// set.
enum vg_status core_options_refuse(const struct core_option *table, size_t count, const void *options, unsigned traits,
				   const char *who);

enum { CORE_ARCHITECTURE = 32 };
// Finds the architecture, such as "sm_90": `arch` if it is not NULL, else that of the device, else that of device 0.
// INVALID (malformed), NO_DRIVER, NOT_FOUND.
enum vg_status core_find_architecture(const char *arch, const struct vg_device *device,
				      char ret_text[CORE_ARCHITECTURE]);
