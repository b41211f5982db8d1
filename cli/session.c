#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "options.h"
#include "say.h"

// Chooses the specification of the simulated GPU. --sim=SPEC replaces the one from the environment or a file; --sim
// alone keeps it.
static int choose_simulation(struct session *session, const struct arguments *arguments)
{
	const char *flag = option_value(arguments, "sim"), *setting = session->config.values[CONFIG_SIMULATE];
	const char *chosen = "";

	if (setting && (strcmp(setting, "0") == 0 || strcmp(setting, "no") == 0))
		setting = NULL;
	if (setting && strcmp(setting, "yes") == 0)
		setting = "1";
	if (flag && *flag)
		chosen = flag;
	else if (setting)
		chosen = setting;
	else if (flag)
		chosen = "1";
	sim_flag_set(chosen);
	if (snprintf(session->simulate, sizeof session->simulate, "%s", chosen) < (int)sizeof session->simulate)
		return 0;
	say_error("the simulated GPU's specification is longer than %zu characters", sizeof session->simulate - 1);
	return verb_usage_code(arguments->verb);
}

int session_read_settings(struct session *session, const struct arguments *arguments)
{
	struct config_error error;

	*session = (struct session){0};
	if (config_load(&session->config, &error)) {
		say_error("%s", error.text);
		return verb_failure_code(arguments->verb);
	}
	return choose_simulation(session, arguments);
}

static int open_node(struct session *session, const struct arguments *arguments, bool may_start)
{
	int r = session_read_settings(session, arguments);

	if (r)
		return r;
	char *const *values = session->config.values;
	const struct vg_node_options options = {
		.size = sizeof options,
		.runtime_dir = values[CONFIG_RUNTIME_DIR],
		.simulate = session->simulate,
		.libdir = values[CONFIG_LIBDIR],
		.no_start = !may_start || (values[CONFIG_START] && strcmp(values[CONFIG_START], "no") == 0),
		.timeout = values[CONFIG_TIMEOUT] ? (unsigned)atoi(values[CONFIG_TIMEOUT]) : 0,
	};
	if (vg_node_open(&options, &session->node)) {
		r = fail_with_last_error(arguments);
		session_close(session);
		return r;
	}
	return 0;
}

int session_open(struct session *session, const struct arguments *arguments)
{
	return open_node(session, arguments, true);
}

int session_open_quietly(struct session *session, const struct arguments *arguments)
{
	return open_node(session, arguments, false);
}

void session_close(struct session *session)
{
	vg_node_close(session->node);
	free(session->device_modes);
	config_finish(&session->config);
}

int run_in_session(const struct arguments *arguments, session_work work)
{
	struct session session;

	int r = session_open(&session, arguments);
	if (r)
		return r;
	r = work(session.node, arguments);
	session_close(&session);
	return r;
}

int read_memory(const struct arguments *arguments, uint64_t *ret_bytes)
{
	const char *text = option_value(arguments, "memory");

	*ret_bytes = 0;
	if (!text)
		return 0;
	const char *wrong = config_check(KIND_SIZE, text);
	if (wrong)
		return say_usage(arguments->verb, "--memory: \"%s\" %s", text, wrong);
	vg_size_parse(text, ret_bytes);
	return 0;
}

int read_share(const struct arguments *arguments, unsigned *ret_percent)
{
	const char *text = option_value(arguments, "share");

	*ret_percent = 0;
	if (!text)
		return 0;
	const char *wrong = config_check(KIND_SHARE, text);
	if (wrong)
		return say_usage(arguments->verb, "--share: \"%s\" %s", text, wrong);
	*ret_percent = (unsigned)atoi(text);
	return 0;
}

int read_key(const struct arguments *arguments, const struct config *config, const char *which, struct key *ret_key)
{
	*ret_key = (struct key){option_value(arguments, "key"), option_value(arguments, "key-ring")};
	if (!ret_key->file && !ret_key->ring)
		ret_key->file = config->values[CONFIG_KEY];
	if (!ret_key->file == !ret_key->ring) {
		if (ret_key->file)
			say_usage(arguments->verb, "--key and --key-ring: give one of them");
		else
			say_usage(arguments->verb,
				  "%s is missing: give --key FILE or --key-ring NAME, or set "
				  "VIRGATE_KEY",
				  which);
		return verb_usage_code(arguments->verb);
	}
	return 0;
}

int fail_with_last_error(const struct arguments *arguments)
{
	say_last_error();
	return verb_failure_code(arguments->verb);
}
