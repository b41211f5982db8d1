// Declares the state that is kept while a configuration file is read. Only source files of this directory include it.
// One thread.
#pragma once
#include <stdbool.h>

#include "settings/config.h"

enum { SECTION_TEXT = 200 };

struct reading {
	struct config *config;
	struct config_error *error;
	const char *file, *text, *end;
	int line;
	bool refused;
	// The name of the present section. inih cuts names at 49 characters, and the name of a profile may be longer.
	char section[SECTION_TEXT];
	struct vg_profile *profiles; // profiles that this file has defined
	int *profile_lines;
	size_t profile_count;
};

// Keeps a message about the present line, unless there is one already.
__attribute__((format(printf, 2, 3))) void refuse_line(struct reading *reading, const char *format, ...);

// Recognize a section with limits ("user NAME" or "group NAME"), begin it, and store its values.
bool is_limit_section(const struct reading *reading);
void begin_limit(struct reading *reading);
void store_limit_value(struct reading *reading, const char *key, const char *value);

// Returns whether the present section is one of a profile.
bool is_profile_section(const struct reading *reading);
// Begins a profile at the line of its section.
void begin_profile(struct reading *reading);
// Stores a value of the present profile.
void store_profile_value(struct reading *reading, const char *key, const char *value);
// Checks the profiles of the file, and moves them to the configuration. Frees what it does not move.
void finish_profiles(struct reading *reading);
// Frees the strings of a profile.
void free_profile(struct vg_profile *profile);
