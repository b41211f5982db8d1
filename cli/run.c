// run: runs a program inside a vGPU.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cdi.h"
#include "child.h"
#include "eviction.h"
#include "preload.h"
#include "profiles.h"
#include "ledger/ledger.h"
#include "session.h"
#include "options.h"
#include "say.h"
#include "terms.h"
#include "watch.h"

static const char *find_setting(const struct session *session, const struct arguments *arguments, const char *option,
				enum config_id id)
{
	const char *value = option_value(arguments, option);

	return value ? value : session->config.values[id];
}

static int refuse_other_options(const struct arguments *arguments)
{
	static const char *const alone[] = {"name",	 "profile", "memory", "share",	      "limit",	"class", "mode",
					    "evictable", "swap",    "fixed",  "idle-suspend", "device", "gpus"};

	for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
		if (option_value(arguments, alone[i]))
			return say_usage(arguments->verb,
					 "--vgpu names a vGPU that exists, --%s describes a new "
					 "one: give one of them, or change the vGPU with virgate set",
					 alone[i]);
	return 0;
}

// Reads the size of the new vGPU from the options and the settings.
static int read_size(struct session *session, const struct arguments *arguments, struct vg_vgpu_options *options)
{
	char *const *values = session->config.values;

	int r = read_memory(arguments, &options->memory);
	if (r == 0)
		r = read_terms(arguments, values[CONFIG_SHARE], options);
	if (r == 0)
		r = read_eviction(arguments, &session->config, options);
	if (r)
		return r;
	if (!options->memory && values[CONFIG_MEMORY])
		vg_size_parse(values[CONFIG_MEMORY], &options->memory);
	if (options->memory || options->share)
		return 0;
	return say_usage(arguments->verb, "how much memory? give --memory SIZE, --share PERCENT for a part of the "
					  "GPU, --profile NAME, or --vgpu NAME for one that exists");
}

// Returns the seconds of --wait, which check_wait() has checked.
static unsigned read_wait(const struct arguments *arguments)
{
	const char *seconds = option_value(arguments, "wait");

	return !seconds ? 0 : *seconds ? (unsigned)strtoul(seconds, NULL, 10) : VG_WAIT_FOREVER;
}

static int check_wait(const struct arguments *arguments)
{
	const char *seconds = option_value(arguments, "wait");
	char *end;

	if (!seconds)
		return 0;
	if (option_value(arguments, "vgpu"))
		return say_usage(
			arguments->verb,
			"--wait waits for room for a new vGPU, and --vgpu names one that exists: leave out one "
			"of them");
	unsigned long value = strtoul(seconds, &end, 10);
	if (*seconds && (!isdigit((unsigned char)*seconds) || *end || value < 1 || value > VG_WAIT_MOST))
		return say_usage(arguments->verb, "--wait: \"%s\" is not a time: use whole seconds from 1 to %u",
				 seconds, VG_WAIT_MOST);
	return 0;
}

// Reads --gpus, the number of GPUs of a job. Returns 0 or an exit code.
static int read_gpus(const struct arguments *arguments, struct vg_vgpu_options *options)
{
	const char *text = option_value(arguments, "gpus");
	char *end;

	if (!text)
		return 0;
	unsigned long value = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || value < 1 || value > VG_GPUS_MOST)
		return say_usage(arguments->verb, "--gpus: \"%s\" is not a number of GPUs: use 1 to %u", text,
				 VG_GPUS_MOST);
	if (value > 1 && options->wait)
		return say_usage(arguments->verb, "--wait and --gpus do not go together: a job that waits would keep "
						  "the GPUs that it has meanwhile; leave out one of them");
	if (value > 1 && options->evictable)
		return say_usage(arguments->verb, "--evictable and --gpus do not go together: the memory of a job "
						  "would have to leave all its GPUs at once; leave out one of them");
	if (value > 1 && options->scheduling_class != VG_CLASS_BATCH)
		return say_usage(arguments->verb,
				 "--class latency and --gpus do not go together: leave out one of them");
	options->gpus = (unsigned)value;
	return 0;
}

// Reads the settings and options of the vGPU that is created for this run. Returns 0 or an exit code.
static int read_new_vgpu(struct session *session, const struct arguments *arguments, struct vg_vgpu_options *options,
			 const struct vg_profile **ret_profile)
{
	int r = read_profile(arguments, session, options, ret_profile);

	if (r == 0 && !*ret_profile)
		r = read_size(session, arguments, options);
	if (r)
		return r;
	options->name = option_value(arguments, "name");
	options->wait = read_wait(arguments);
	options->device = find_setting(session, arguments, "device", CONFIG_DEVICE);
	r = read_gpus(arguments, options);
	if (r)
		return r;
	if (*ret_profile && (*ret_profile)->mode_given)
		return 0;
	return use_configured_modes(arguments, session, options);
}

static int enter_vgpu(struct session *session, const struct arguments *arguments, struct vg_entrance **ret_entrance)
{
	const char *name = option_value(arguments, "vgpu");
	struct vg_vgpu_options options = {.size = sizeof options};
	const struct vg_profile *profile = NULL;

	int r = check_wait(arguments);
	if (r)
		return r;
	r = name ? refuse_other_options(arguments) : read_new_vgpu(session, arguments, &options, &profile);
	if (r)
		return r;
	if (vg_vgpu_enter(session->node, name, &options, ret_entrance))
		return fail_with_profile(arguments, session->node, profile);
	return 0;
}

static int find_command(const char *command, char *ret_path)
{
	int error = child_find_program(command, ret_path);

	if (error == 0)
		return 0;
	if (error == ENOENT || error == ENOTDIR) {
		say_error(strchr(command, '/') ? "there is no \"%s\"" : "there is no program \"%s\" in PATH", command);
		return EXIT_NO_COMMAND;
	}
	say_error("\"%s\" cannot be executed: %s", command, strerror(error));
	return EXIT_CANNOT_EXECUTE;
}

static int refuse_start(const char *path, int error)
{
	if (error == ENOENT) // the file exists, so ENOENT is about its interpreter
		say_error("\"%s\" cannot be executed: its interpreter is missing", path);
	else
		say_error("\"%s\" cannot be executed: %s", path, strerror(error));
	return EXIT_CANNOT_EXECUTE;
}

// Returns how many processes have entered the vGPU, according to its ledger.
static uint64_t count_enters(const char *path)
{
	struct vg_ledger *ledger;
	uint64_t enters;

	if (vg_ledger_open_copy(path, &ledger))
		return 0;
	enters = vg_ledger_enters(ledger);
	vg_ledger_close(ledger);
	return enters;
}

// Refuses a program for another C library: its dynamic linker cannot load the interposer, and would end the program.
static int refuse_other_libc(const char *command, const struct preload_program *program)
{
	if (program->preload != PRELOAD_OTHER_LIBC)
		return 0;
	say_error("\"%s\" cannot run inside a vGPU: its dynamic linker, %s, does not load Virgate's library, which is "
		  "for another C library, so no quota would hold; use a build of the program for the C library of "
		  "virgate",
		  command, program->linker);
	return EXIT_CANNOT_EXECUTE;
}

// Sets an environment variable that lets the address sanitizer's library load after the interposer, where it works as
// well. Without the variable, the library ends the program unless it is loaded first. Returns false if there is no
// memory.
static bool allow_asan_order(void)
{
	static const char name[] = "ASAN_OPTIONS", option[] = "verify_asan_link_order";
	const char *own = getenv(name);
	char *value;

	if (own && strstr(own, option))
		return true;
	if (asprintf(&value, "%s%s%s=0", own ? own : "", own && *own ? ":" : "", option) < 0)
		return false;
	bool set = setenv(name, value, 1) == 0;
	free(value);
	return set;
}

// Warns if a process used the GPU without the interposer, or if the interposer was not loaded into the program.
static void warn_of_missing_quota(const char *command, const struct preload_program *program, const struct watch *watch,
				  bool loaded)
{
	const char *why = preload_text(program->preload);

	if (watch->unlimited)
		say_warning(
			"process %d (%s) used the GPU without Virgate's library: the quota did not hold for it (was "
			"LD_PRELOAD cleared, or is it static or setuid?)",
			(int)watch->unlimited, watch->unlimited_name);
	else if (why && !loaded && !watch->interposed)
		say_warning("\"%s\" %s: Virgate's library was never loaded, and the quota did not hold for it", command,
			    why);
}

static void watch_children(void *user)
{
	watch_processes(user);
}

// Warns if the program is a container engine: the containers that it starts do not get this environment.
static void warn_of_container(char **words)
{
	static const char *const engines[] = {"podman", "docker", "nerdctl"};
	const char *slash = strrchr(words[0], '/'), *name = slash ? slash + 1 : words[0];
	bool is_engine = false, starts = false, has_device = false;

	for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
		is_engine |= strcmp(name, engines[i]) == 0;
	for (int i = 1; is_engine && words[i]; i++) {
		starts |= strcmp(words[i], "run") == 0 || strcmp(words[i], "create") == 0;
		has_device |= strstr(words[i], CDI_KIND "=") != NULL;
	}
	if (starts && !has_device)
		say_warning(
			"a container that %s starts is outside this vGPU, and no quota holds for it: create a vGPU, "
			"and start the container with `%s run --device " CDI_KIND "=NAME` (see virgate-cdi(1))",
			name, name);
}

static int run_program(struct vg_entrance *entrance, char **words, const char *path,
		       const struct preload_program *program)
{
	const char *ledger = vg_entrance_ledger(entrance);
	uint64_t enters = count_enters(ledger);
	struct children children;

	if (program->asan && !allow_asan_order()) {
		say_error("no memory for ASAN_OPTIONS");
		return EXIT_RUN_FAILED;
	}
	char **environment = vg_entrance_environment(entrance, environ);
	if (!environment) {
		say_last_error();
		return EXIT_RUN_FAILED;
	}
	int r = child_start(&children, path, words, environment);
	if (r < 0)
		return refuse_start(path, -r);
	struct watch watch = {.root = children.list[0].pid};
	child_wait(&children, watch_children, &watch);
	warn_of_missing_quota(words[0], program, &watch, count_enters(ledger) > enters);
	return child_exit_code(&children);
}

static int run_run(const struct arguments *arguments)
{
	struct vg_entrance *entrance = NULL;
	struct preload_program program;
	struct session session;
	char path[4096];

	int r = session_open(&session, arguments);
	if (r)
		return r;
	if (session.config.values[CONFIG_LOG])
		setenv("VIRGATE_LOG", session.config.values[CONFIG_LOG], 0);
	r = find_command(arguments->words[0], path);
	if (r == 0) {
		preload_inspect(path, &program);
		r = refuse_other_libc(arguments->words[0], &program);
	}
	if (r == 0)
		r = enter_vgpu(&session, arguments, &entrance);
	if (r == 0)
		warn_of_container(arguments->words);
	if (r == 0)
		r = run_program(entrance, arguments->words, path, &program);
	vg_entrance_free(entrance);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"vgpu", 'v', "NAME", "run inside the vGPU of that name", COMPLETE_VGPU},
	{"name", 'n', "NAME", "the name of the vGPU that is made for this run", 0},
	OPTIONS_NEW_VGPU,
	{"gpus", 'g', "N", "a job: a vGPU of this size and share on each of N GPUs", 0},
	{"wait", 'w', "[SECONDS]", "wait for room instead of failing, in the order of arrival", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_run = {
	.name = "run",
	.synopsis = "[--vgpu NAME | [--name NAME] [--profile NAME | [--memory SIZE] [--share PERCENT [--limit]] "
		    "[--class CLASS] [--mode MODE] [--evictable [--swap SIZE] [--fixed SIZE] "
		    "[--idle-suspend SECONDS]]] [--gpus N] [--device GPU] "
		    "[--wait[=SECONDS]]] [--sim] [--] COMMAND...",
	.summary = "Run a program inside a vGPU",
	.details =
		"Without --vgpu a vGPU is made for the run, and goes away with its last process.\n"
		"Give it --profile, or --memory, --share or both; a share alone brings the same part of the memory.\n"
		"Exit status: the program's own; 128 + n if signal n ended it; 125 if virgate failed,\n"
		"126 if the program cannot be executed, 127 if there is none; 75 if it was\n"
		"dumped and ended by virgate dump.",
	.options = options,
	.least = 1,
	.most = -1,
	.command = true,
	.complete = COMPLETE_COMMAND,
	.failure = EXIT_RUN_FAILED,
	.run = run_run,
};
