// Tests hostile texts and names of other users: no control character and no change of text direction reaches the
// terminal, and JSON stays valid.
#include <jansson.h>

#include "base/printable.h"
#include "fixture.h"

// The hostile text in JSON and as a string: ESC, C1, DEL, a line break, a right-to-left override.
#define HOSTILE "\\u001b[31m\\u009b2J\\u007f\\n\\u202ex"
static const char hostile[] = "\033[31m\xc2\x9b"
			      "2J\177\n\xe2\x80\xaex";

static void check_clean(const char *text, const char *verb)
{
	unsigned character;

	while (*text) {
		size_t length = vg_character_read(text, &character);
		if (!vg_is_printable(character) && character != '\n')
			FAIL("%s puts character %x out: %s", verb, character, text);
		text += length;
	}
}

static int run_clean(const char *const *words)
{
	int code = wait_for_program(start_program(words));

	check_clean(result.out, words[1]);
	check_clean(result.err, words[1]);
	return code;
}

#define RUN_CLEAN(...) run_clean(WORDS(__VA_ARGS__))

static bool contains_hostile(const json_t *value)
{
	const char *key, *text = json_string_value(value);
	bool found = text && strstr(text, hostile);
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)value, i, item)
		found |= contains_hostile(item);
	json_object_foreach((json_t *)value, key, item)
		found |= contains_hostile(item);
	return found;
}

// Checks that JSON output contains the text unchanged, for the programs that read it.
static void check_json(void)
{
	json_error_t error;
	json_t *json = json_loads(result.out, 0, &error);

	if (!json)
		FAIL("not JSON (%s): %s", error.text, result.out);
	CHECK(contains_hostile(json));
	json_decref(json);
}

#define EVICTION                                                                                          \
	"{\"state\":\"" HOSTILE "\",\"suspended\":true,\"pending\":false,\"reason\":\"thread\","          \
	"\"call\":\"" HOSTILE "\","                                                                       \
	"\"error\":0,\"bytes\":1,\"host\":1,\"missing\":1,\"state_ns\":1,\"moved_ns\":1,\"waited_ns\":1," \
	"\"waiting\":1,"                                                                                  \
	"\"moves\":1}"
#define VGPU                                                                                                         \
	"{\"name\":\"" HOSTILE "\",\"uuid\":\"" HOSTILE "\",\"device\":0,\"memory\":1,\"charged\":1,\"overhead\":1," \
	"\"physical\":1,\"share\":30,\"share_limit\":false,\"class\":\"batch\",\"owner\":\"" HOSTILE "\","           \
	"\"group\":\"" HOSTILE "\","                                                                                 \
	"\"ephemeral\":false,\"created\":1,\"refusals\":2,\"tenants\":[{\"pid\":4711,\"command\":\"" HOSTILE "\","   \
	"\"charged\":1,\"overhead\":1,\"physical\":null,\"started\":1,\"guest\":false,\"eviction\":" EVICTION "}],"  \
	"\"shared\":0,\"evictable\":true,\"swap\":1,\"eviction\":{\"state\":\"" HOSTILE "\",\"suspended\":true,"     \
	"\"on_gpu\":1,\"in_host\":1},"                                                                               \
	"\"turns\":{\"mode\":\"" HOSTILE "\",\"held\":false,\"reason\":\"" HOSTILE "\",\"recent\":1,\"weight\":1,"   \
	"\"gpu_ns\":1,\"waited_ns\":1,\"turns\":1,\"holder\":\"" HOSTILE "\",\"quantum_ns\":1,\"handovers\":1}}"

TEST(listings_escape_hostile_names)
{
	static const char *const verbs[][4] = {{"ps"}, {"inspect", "x"}, {"devices"}, {"logs", "x"}, {"share", "list"}};

	fixture_start();
	serve_answer("{\"ok\":true,\"vgpus\":[" VGPU "],\"vgpu\":" VGPU ","
		     "\"devices\":[{\"index\":0,\"uuid\":\"" HOSTILE "\",\"name\":\"" HOSTILE "\",\"memory\":1,"
		     "\"memory_used\":1,\"reserved\":1,\"vgpus\":1,\"driver\":\"" HOSTILE "\","
		     "\"compute_capability\":\"" HOSTILE "\",\"simulated\":true}],"
		     "\"refusals\":[{\"time\":1,\"pid\":12,\"entry\":\"" HOSTILE
		     "\",\"asked\":1,\"charged\":1,\"limit\":1,\"overhead\":1}],"
		     "\"publications\":[{\"name\":\"" HOSTILE "\",\"generation\":1,\"state\":\"" HOSTILE
		     "\",\"bytes\":1,"
		     "\"ranges\":1,\"device\":0,\"owner\":\"" HOSTILE "\",\"group\":\"" HOSTILE
		     "\",\"mode\":384,\"vgpu\":\"" HOSTILE
		     "\",\"publisher\":1,\"published\":1,\"leases\":1,\"readers\":[{\"pid\":1,\"command\":\"" HOSTILE
		     "\",\"user\":\"" HOSTILE "\",\"access\":\"read\",\"since\":1}]}]}");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		const char *words[] = {VIRGATE, verbs[i][0], verbs[i][1], NULL, NULL};
		size_t last = words[2] ? 3 : 2;
		if (run_clean(words) != 0)
			FAIL("%s: %s", words[1], result.err);
		CHECK_CONTAINS(result.out, "?[31m?2J???x");
		words[last] = "--json";
		CHECK_INT(run_clean(words), 0);
		check_json();
	}
	CHECK_INT(RUN_CLEAN("complete", "--", "inspect", ""), 0);
	CHECK_STR(result.out, "");
	CHECK_INT(RUN_CLEAN("complete", "--", "share", "open", ""), 0);
	CHECK_STR(result.out, "");
}

TEST(messages_escape_text_of_daemon)
{
	static const char *const verbs[][3] = {{"ps"},	      {"inspect", "x"}, {"rm", "x"},	{"kill", "x"},
					       {"logs", "x"}, {"suspend", "x"}, {"resume", "x"}};

	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"denied\",\"message\":\"" HOSTILE "\"}");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		const char *const words[] = {VIRGATE, verbs[i][0], verbs[i][1], NULL};
		CHECK_INT(run_clean(words), 1);
		CHECK_STR(result.err, "virgate: ?[31m?2J???x\n");
	}
}

TEST(names_of_processes_are_escaped)
{
	fixture_start();
	serve_answers((const char *const[]){"{\"ok\":true,\"name\":\"" HOSTILE "\",\"asked\":[{\"pid\":4711,"
					    "\"command\":\"" HOSTILE "\",\"started\":1,\"bytes\":1,\"host\":0}]}",
					    "{\"ok\":true,\"vgpu\":" VGPU "}", NULL});
	// The verb uses the name in the daemon's answer for its next request. That name is invalid.
	CHECK(RUN_CLEAN("suspend", "x") != 0);
	serve_answers((const char *const[]){"{\"ok\":true,\"name\":\"x\",\"asked\":[{\"pid\":4711,"
					    "\"command\":\"" HOSTILE "\",\"started\":1,\"bytes\":1,\"host\":0}]}",
					    "{\"ok\":true,\"vgpu\":" VGPU "}", NULL});
	CHECK_INT(RUN_CLEAN("suspend", "x"), 3);
	CHECK_CONTAINS(result.err,
		       "process 4711 (?[31m?2J???x) could not be suspended: a thread did not return from ?[31m");
}

// In a directory of another user, a shell may expand `*` to such hostile words.
TEST(hostile_arguments_are_escaped)
{
	static const char *const verbs[] = {"inspect", "rm", "kill", "logs", "ps", "suspend", "resume"};
	char path[256];

	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"not_found\",\"message\":\"none\"}");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		CHECK(RUN_CLEAN(verbs[i], hostile) != 0);
	CHECK(RUN_CLEAN("image", "list", hostile) != 0);
	CHECK(RUN_CLEAN("image", "inspect", hostile) != 0);
	CHECK(RUN_CLEAN("image", "verify", hostile) != 0);
	CHECK(RUN_CLEAN("image", "verify", "--json", hostile) != 0);
	CHECK(RUN_CLEAN("restore", hostile) != 0);
	CHECK(RUN_CLEAN("audit", "verify", hostile) != 0);
	CHECK(RUN_CLEAN(hostile) != 0);
	CHECK(RUN_CLEAN("ps", hostile + 1) != 0);
	CHECK(RUN_CLEAN("run", "--memory", hostile, "true") != 0);
	// Makes a directory whose name is not UTF-8.
	snprintf(path, sizeof path,
		 "%s/\x9b"
		 "31m\xff",
		 fixture.directory);
	CHECK_INT(mkdir(path, 0700), 0);
	CHECK_INT(RUN_CLEAN("image", "list", path), 0);
	CHECK_INT(RUN_CLEAN("image", "list", path, "--json"), 0);
	CHECK(RUN_CLEAN("image", "inspect", path) != 0);
	CHECK(RUN_CLEAN("image", "verify", path, "--json") != 0);
}

TEST(doctor_escapes_hostile_text)
{
	fixture_start();
	setenv("VIRGATE_CRIU",
	       "/\x9b"
	       "31m\xe2\x80\xae\xff\033[2J",
	       1);
	RUN_CLEAN("doctor", "cuda");
	CHECK_CONTAINS(result.out, "/?31m???[2J");
	RUN_CLEAN("doctor", "cuda", "--json");
	json_t *json = json_loads(result.out, 0, NULL);
	CHECK(json != NULL);
	CHECK(json_array_size(json_object_get(json, "checks")) > 0);
	json_decref(json);
	unsetenv("VIRGATE_CRIU");
}

// With sudo, the files of settings and other named files may belong to another user, who can replace them by a FIFO.
TEST(fifo_does_not_block)
{
	char path[128];

	fixture_start();
	serve_answer("{\"ok\":true,\"vgpus\":[]}");
	snprintf(path, sizeof path, "%s/virgate", fixture.directory);
	CHECK_INT(mkdir(path, 0700), 0);
	strcat(path, "/virgate.conf");
	CHECK_INT(mkfifo(path, 0700), 0);
	alarm(60); // ends the test if the verb blocks
	CHECK_REFUSAL(1, "/virgate/virgate.conf: is not a regular file", "ps");
	setenv("XDG_CONFIG_HOME", "/nowhere", 1);
	CHECK(VIRGATE_RUN("run", "--memory", "1G", path) >= 125);
	CHECK(VIRGATE_RUN("share", "publish", "x", "--from", path) != 0);
	CHECK_CONTAINS(result.err, "/virgate.conf is not a regular file");
	alarm(0);
}
