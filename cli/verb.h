// The verb table: every verb is one row and one file. Help, option parsing, completion and the
// tests of the man pages read these rows; nothing about a verb is written down twice.
// A verb of two words, "key create", belongs to the family of its first: a family has one line in
// the overview and one man page for all its verbs.
// The program has one thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { MAX_OPTIONS = 20, MAX_AGAIN = 64 };

// What a verb other than `run` ends with. `run` passes its child's status through and keeps
// the codes of env(1) and nohup(1) for itself, and that of sysexits(3) for what is to be tried again.
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_MOVED = 3, // suspend and resume: a process did not obey
	EXIT_WRITTEN_DOWN = 75,
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
	char letter;	      // 0: none
	const char *argument; // what the value is called; NULL: a flag; "[X]": --name or --name=X
	const char *help;
	enum complete complete;
	bool again;  // it may be given more than once
	bool number; // an optional value may also be the next word, if that is a number
};

struct arguments {
	const struct verb *verb;
	const char *values[MAX_OPTIONS]; // by row of the verb's options; NULL: not given
	struct {
		int row;
		const char *value;
	} again[MAX_AGAIN]; // the second and later values
	int again_count;
	int count;
	char **words; // what stands behind the options; NULL-terminated
};

struct verb {
	const char *name;     // one word, or two: "FAMILY VERB"
	const char *alias;    // another word for it, or NULL
	const char *synopsis; // what follows the name, for help
	const char *summary;  // one line, no full stop
	const char *details;  // more for `virgate help VERB`, or NULL
	const struct option *options;
	int least, most; // words; most < 0: no bound
	bool command;	 // the first word ends the options: the rest is a program's
	bool hidden;
	enum complete complete; // for the words
	enum exit_code failure;	// of everything, usage included; 0: EXIT_FAILED and EXIT_USAGE
	int (*run)(const struct arguments *arguments);
};

extern const struct verb verb_run, verb_create, verb_set, verb_rm, verb_kill, verb_suspend, verb_resume, verb_ps,
	verb_inspect,
	verb_devices, verb_doctor, verb_dump, verb_restore, verb_migrate, verb_recover, verb_image_list,
	verb_image_inspect, verb_image_verify, verb_logs, verb_share_produce, verb_share_consume,
	verb_share_selftest, verb_share_publish, verb_share_open, verb_share_list, verb_share_revoke,
	verb_key_create, verb_audit_verify, verb_shutdown, verb_help, verb_version, verb_completion,
	verb_complete;

// In the order of the help, NULL at the end; the verbs of a family follow each other.
extern const struct verb *const verbs[];
// The heading of the group that begins with this verb; NULL: it is in the group of the one before.
const char *verb_heading(const struct verb *verb);

struct family {
	const char *name;
	const char *summary; // one line, no full stop
};

// A row without a name ends them.
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
// The verb's own word, "create" of "key create", if it is one of the family's; NULL otherwise.
const char *family_word(const struct family *family, const struct verb *verb);
const struct family *verb_family(const struct verb *verb); // NULL: a verb of one word

// `second` may be NULL, and is not looked at where the first word is a whole verb.
const struct verb *verb_find(const char *first, const char *second);
// The name or alias of a verb, or the name of a family, that is nearest to words that are no verb. NULL: nothing is
// near.
const char *verb_nearest(const char *first, const char *second);

// The options that several verbs share.
#define OPTION_MEMORY {"memory", 'm', "SIZE", "memory limit, such as 8G or 1536M; contexts and modules count too", 0}
#define OPTION_SHARE {"share", 's', "PERCENT", "part of the GPU's time, 1 to 100", 0}
#define OPTION_DEVICE {"device", 'd', "GPU", "index or UUID of the GPU", COMPLETE_DEVICE}
#define OPTION_SIM {"sim", 0, "[SPEC]", "use the simulated GPU; SPEC as in VIRGATE_SIM", 0}
#define OPTION_JSON {"json", 0, NULL, "print JSON; sizes are bytes, times are seconds", 0}
