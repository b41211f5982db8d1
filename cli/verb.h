// The verb table: each verb has one row and one file. Help, option parsing, completion and the tests of the manual
// pages read these rows. A verb of two words, such as "key create", belongs to the family that its first word names. A
// family has one line in the overview and one manual page. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { MAX_OPTIONS = 20, MAX_AGAIN = 64 };

// Exit codes. `run` and `restore` return the exit status of their child, or one of the codes from EXIT_DUMPED on. These
// are the codes of env(1) and nohup(1), and EX_TEMPFAIL of sysexits(3) for a program that was dumped and can be
// restored.
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_MOVED = 3, // suspend and resume: the memory of a process was not moved
	EXIT_DUMPED = 75,
	EXIT_RUN_FAILED = 125,
	EXIT_CANNOT_EXECUTE = 126,
	EXIT_NO_COMMAND = 127,
	EXIT_SIGNAL = 128,
};

// What completion offers for an argument.
enum complete {
	COMPLETE_NOTHING,
	COMPLETE_VGPU,
	COMPLETE_DEVICE,
	COMPLETE_PROFILE,
	COMPLETE_PUBLICATION,
	COMPLETE_SIGNAL,
	COMPLETE_CLASS,
	COMPLETE_MODE,
	COMPLETE_SHELL,
	COMPLETE_FILE,
	COMPLETE_VERB,
	COMPLETE_COMMAND
};

struct option {
	const char *name;     // without the dashes
	char letter;	      // 0: no letter
	const char *argument; // name of the value; NULL: no value; "[X]": optional value (--name or --name=X)
	const char *help;
	enum complete complete;
	bool again;  // the option may be given more than once
	bool number; // the value is optional; the next word is the value if it is a number
};

struct arguments {
	const struct verb *verb;
	const char *values[MAX_OPTIONS]; // values, indexed by the option's row in the table; NULL: not given
	struct {
		int row;
		const char *value;
	} again[MAX_AGAIN]; // the second and later values of repeated options
	int again_count;
	int count;
	char **words; // the words that are not options; ends with NULL
};

struct verb {
	const char *name;     // one word, or two: "FAMILY VERB"
	const char *alias;    // another name, or NULL
	const char *synopsis; // the words and options that follow the verb's name in its help
	const char *summary;  // one line without a full stop
	const char *details;  // further text for `virgate help VERB`, or NULL
	const struct option *options;
	int least, most; // minimum and maximum number of words; most < 0: no maximum
	// Options end at the first word; this word and all later ones are the command line of a program.
	bool command;
	bool hidden;
	enum complete complete; // what completion offers for words that are not options
	enum exit_code failure; // exit code for all failures; 0: EXIT_FAILED and EXIT_USAGE
	int (*run)(const struct arguments *arguments);
};

extern const struct verb verb_run, verb_create, verb_set, verb_rm, verb_kill, verb_suspend, verb_resume, verb_ps,
	verb_inspect, verb_devices, verb_drain, verb_doctor, verb_dump, verb_restore, verb_migrate, verb_recover,
	verb_image_list, verb_image_inspect, verb_image_verify, verb_logs, verb_metrics, verb_events, verb_stats,
	verb_trace, verb_top, verb_share_produce, verb_share_consume, verb_share_selftest, verb_share_publish,
	verb_share_open, verb_share_list, verb_share_revoke, verb_key_create, verb_audit_verify, verb_cdi_generate,
	verb_cdi_hook, verb_shutdown, verb_help, verb_version, verb_completion, verb_complete;

// All verbs, in the order of the help; ends with NULL. The verbs of a family are adjacent.
extern const struct verb *const verbs[];
// Returns the heading of the group that begins with this verb; NULL: no group begins with it.
const char *verb_heading(const struct verb *verb);

struct family {
	const char *name;
	const char *summary; // one line without a full stop
};

// All families; the last row has no name.
extern const struct family families[];

static inline int verb_failure_code(const struct verb *verb)
{
	return verb->failure ? verb->failure : EXIT_FAILED;
}

static inline int verb_usage_code(const struct verb *verb)
{
	return verb->failure ? verb->failure : EXIT_USAGE;
}

const struct family *family_find(const char *name);
// Returns the second word of a verb, such as "create" of "key create"; NULL: the verb is not in this family.
const char *family_word(const struct family *family, const struct verb *verb);
const struct family *verb_family(const struct verb *verb); // NULL: the verb has one word, and no family

// Finds a verb by its words. If the first word alone is a verb, ignores `second`, which may be NULL.
const struct verb *verb_find(const char *first, const char *second);
// Returns the verb, family or alias whose name is nearest to an unknown verb. NULL: no name is near enough.
const char *verb_nearest(const char *first, const char *second);

// Options that several verbs have.
#define OPTION_MEMORY                                                                                         \
	{                                                                                                     \
		"memory", 'm', "SIZE", "memory limit, such as 8G or 1536M; contexts and modules count too", 0 \
	}
#define OPTION_SHARE                                                           \
	{                                                                      \
		"share", 's', "PERCENT", "part of the GPU's time, 1 to 100", 0 \
	}
#define OPTION_DEVICE                                                             \
	{                                                                         \
		"device", 'd', "GPU", "index or UUID of the GPU", COMPLETE_DEVICE \
	}
#define OPTION_SIM                                                                     \
	{                                                                              \
		"sim", 0, "[SPEC]", "use the simulated GPU; SPEC as in VIRGATE_SIM", 0 \
	}
#define OPTION_JSON                                                                  \
	{                                                                            \
		"json", 0, NULL, "print JSON; sizes are bytes, times are seconds", 0 \
	}
