// Reads the settings. Options override environment variables, these override the user's file, and that overrides the
// system's file. Both are INI files: $XDG_CONFIG_HOME/virgate/virgate.conf and /etc/virgate/virgate.conf. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "virgate/profile.h"

enum config_kind {
	KIND_TEXT,
	KIND_SIZE,
	KIND_SHARE,
	KIND_SECONDS,
	KIND_SWITCH,
	KIND_LEVEL,
	KIND_MODE,
	KIND_CLASS,
	KIND_SHARES,
	KIND_COUNT
};

// The settings as X(ID, section, key, environment variable, kind). A test compares this list with the manual page
// virgate.conf(5).
#define CONFIG_LIST(X)                                                          \
	X(MEMORY, "run", "memory", "VIRGATE_MEMORY", KIND_SIZE)                 \
	X(SHARE, "run", "share", "VIRGATE_SHARE", KIND_SHARE)                   \
	X(DEVICE, "run", "device", "VIRGATE_DEVICE", KIND_TEXT)                 \
	X(SHARING, "run", "sharing", "VIRGATE_SHARING", KIND_MODE)              \
	X(EVICTABLE, "run", "evictable", "VIRGATE_EVICTABLE", KIND_SWITCH)      \
	X(SWAP, "run", "swap", "VIRGATE_SWAP", KIND_SIZE)                       \
	X(LOG, "run", "log", "VIRGATE_LOG", KIND_LEVEL)                         \
	X(SIMULATE, "node", "simulate", "VIRGATE_SIM", KIND_TEXT)               \
	X(RUNTIME_DIR, "node", "runtime_dir", "VIRGATE_RUNTIME_DIR", KIND_TEXT) \
	X(LIBDIR, "node", "libdir", "VIRGATE_LIBDIR", KIND_TEXT)                \
	X(START, "node", "start_daemon", "VIRGATE_START_DAEMON", KIND_SWITCH)   \
	X(TIMEOUT, "node", "timeout", "VIRGATE_TIMEOUT", KIND_SECONDS)          \
	X(KEY, "audit", "key", "VIRGATE_KEY", KIND_TEXT)

enum config_id {
#define X(id, section, key, variable, kind) CONFIG_##id,
	CONFIG_LIST(X)
#undef X
		CONFIG_COUNT
};

struct config_row {
	const char *section, *key, *variable;
	enum config_kind kind;
};
extern const struct config_row config_rows[CONFIG_COUNT];

// The settings in a section [device GPU].
struct config_device {
	char *gpu;     // index or UUID of the GPU
	char *sharing; // sharing mode
	char *origin;
};

// A section [user NAME] or [group NAME] of the system's file: what the vGPUs of the user, or of all members of the
// group together, may have on this machine.
struct config_limit {
	bool is_group;
	char *name; // "*": each user without a section
	uint64_t memory;
	unsigned share; // percent, summed over all GPUs; 0: no limit (also for `memory`)
	int vgpus;	// -1: no limit
	bool only_batch;
	char *origin; // file and line at which the section begins
};

struct config {
	char *values[CONFIG_COUNT]; // NULL: not set
	// Where each value was set, such as "VIRGATE_MEMORY" or "/etc/virgate/virgate.conf:3".
	char *origins[CONFIG_COUNT];
	// The sections [device GPU], which set sharing modes. If several are for one GPU, the last one counts. The list
	// is empty if VIRGATE_SHARING sets the mode.
	struct config_device *devices;
	size_t device_count;
	struct vg_profile *profiles; // the profiles; this struct owns them and their strings
	size_t profile_count;
	struct config_limit *limits;
	size_t limit_count;
};

struct config_error {
	char text[512]; // "FILE:LINE: what is wrong"
};

// Parses the text of one configuration file. Its values replace those that `config` already has. `file` is the file's
// name for messages. Returns 0, or 1 if the text is invalid.
int config_read(struct config *config, const char *file, const char *text, size_t length,
		struct config_error *ret_error);
// Returns the path of the system's file.
const char *config_system_path(void);
// Reads the system's file alone, which may be missing. Returns 0, or 1 if it is invalid.
int config_load_system(struct config *ret_config, struct config_error *ret_error);
// Reads both configuration files, either of which may be missing. Returns 0, or 1 if a file is invalid.
int config_load_files(struct config *ret_config, struct config_error *ret_error);
// Reads both configuration files, either of which may be missing, and then the environment. Returns 0, or 1 if a value
// is invalid.
int config_load(struct config *ret_config, struct config_error *ret_error);
void config_finish(struct config *config);

// Checks a value of a setting. Returns what is wrong with the value, as the end of a sentence; NULL: the value is
// valid.
const char *config_check(enum config_kind kind, const char *value);
