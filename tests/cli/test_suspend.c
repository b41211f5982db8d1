// Tests suspend and resume: their requests, how long they wait, what they print for each process, and what `ps` and
// `inspect` list. Some tests use a stand-in for the daemon, others the real daemon with stand-ins for pagers
// (../daemon/player.h).
#include "live_node.h"

#include "../daemon/player.h"

#define MIB 1048576ull

// ---- a stand-in daemon -----------------------------------------------------------------------------------

#define ASKED(host)                                                                                          \
	"{\"ok\":true,\"name\":\"a\",\"asked\":[{\"pid\":7,\"command\":\"train\",\"started\":1700000001.25," \
	"\"bytes\":1073741824,\"host\":" host "}]}"
#define RUNNING "\"state\":\"running\",\"suspended\":false,\"pending\":false,\"reason\":\"\""
#define SUSPENDED "\"state\":\"suspended\",\"suspended\":true,\"pending\":false,\"reason\":\"\",\"host\":1073741824"

// Returns an answer to `inspect` with one process. `eviction` has the fields that matter to the test.
static const char *inspect_answer(const char *eviction)
{
	static const char *const usual[] = {"\"host\":0",
					    "\"missing\":0",
					    "\"call\":null",
					    "\"error\":0",
					    "\"bytes\":1073741824",
					    "\"state_ns\":3000000000",
					    "\"moved_ns\":250000000",
					    "\"waited_ns\":1500000000",
					    "\"waiting\":2",
					    "\"moves\":4"};
	// a test passes up to eight answers to serve_answers() at once, so each answer has its own buffer
	static char answers[8][2048];
	static unsigned next;
	char *answer = answers[next++ % 8], whole[1024];

	snprintf(whole, sizeof whole, "%s", eviction);
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
		char key[32];
		snprintf(key, sizeof key, "%.*s", (int)(strchr(usual[i], ':') - usual[i]), usual[i]);
		const char *given = strstr(eviction, key);
		if (!given || given[strlen(key)] != ':') // the word may be a value instead of a key
			snprintf(whole + strlen(whole), sizeof whole - strlen(whole), ",%s", usual[i]);
	}
	snprintf(answer, sizeof answers[0],
		 "{\"ok\":true,\"vgpu\":{\"name\":\"a\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":2147483648,"
		 "\"charged\":1073741824,\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,"
		 "\"class\":\"batch\",\"turns\":null,\"owner\":\"ann\",\"group\":null,\"ephemeral\":false,"
		 "\"created\":1,"
		 "\"refusals\":0,\"evictable\":true,\"swap\":536870912,\"fixed\":100663296,"
		 "\"eviction\":{\"state\":\"moving\","
		 "\"suspended\":true,\"on_gpu\":805306368,\"in_host\":268435456},\"tenants\":[{\"pid\":7,"
		 "\"command\":\"train\",\"charged\":1073741824,\"overhead\":0,\"physical\":null,"
		 "\"started\":1700000001.25,\"guest\":false,\"ended\":false,\"eviction\":{%s}}]}}",
		 whole);
	return answer;
}

TEST(suspend_waits_and_measures)
{
	char requests[2048];

	fixture_start();
	serve_answers((const char *const[]){
		ASKED("0"), inspect_answer("\"state\":\"asked\",\"suspended\":true,\"pending\":true,\"reason\":\"\""),
		inspect_answer("\"state\":\"draining\",\"suspended\":true,\"pending\":true,\"reason\":\"\""),
		inspect_answer("\"state\":\"leaving\",\"suspended\":true,\"pending\":true,\"reason\":\"\""),
		inspect_answer(SUSPENDED), NULL});
	CHECK_VIRGATE("suspend", "a", "--drain", "3");
	CHECK_STR(result.out, "a: process 7 (train): 1.0 GiB to the host in 0.250 s, 4.0 GiB/s\n");
	CHECK_STR(result.err, "");
	serve_answers((const char *const[]){ASKED("0"), inspect_answer(SUSPENDED ",\"unchanged\":805306368"), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out,
		  "a: process 7 (train): 1.0 GiB to the host in 0.250 s, 1.0 GiB/s; 768.0 MiB of it had not "
		  "changed since the last time, and were not copied\n");
	serve_answers((const char *const[]){ASKED("0"), inspect_answer(SUSPENDED ",\"unchanged\":1073741824"), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out,
		  "a: process 7 (train): 1.0 GiB to the host in 0.250 s; 1.0 GiB of it had not changed since the "
		  "last time, and were not copied\n");
	serve_answers((const char *const[]){ASKED("0"), inspect_answer(SUSPENDED ",\"hash_error\":2"), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out,
		  "a: process 7 (train): 1.0 GiB to the host in 0.250 s, 4.0 GiB/s; the GPU could not hash it "
		  "(CUDA error 2), so unchanged blocks were copied, too\n");
	serve_answers((const char *const[]){
		"{\"ok\":true,\"vgpus\":[]}", ASKED("1073741824"),
		inspect_answer("\"state\":\"out\",\"suspended\":false,\"pending\":false,\"reason\":\"\""),
		inspect_answer("\"state\":\"returning\",\"suspended\":false,\"pending\":true,\"reason\":\"\""),
		inspect_answer(RUNNING), NULL});
	CHECK_VIRGATE("resume", "--pid", "7");
	CHECK_STR(result.out, "a: process 7 (train): 1.0 GiB to the GPU in 0.250 s, 4.0 GiB/s\n");
	read_file("requests", requests, sizeof requests);
	CHECK_CONTAINS(requests, "{\"op\":\"suspend\",\"drain_ms\":3000,\"name\":\"a\",\"simulate\":\"\"}\n"
				 "{\"op\":\"inspect\",\"name\":\"a\",\"simulate\":\"\"}\n");
	// Before a resume, the verb requests the list, to learn whether the vGPU was suspended with --deep.
	CHECK_CONTAINS(requests, "{\"op\":\"list\",\"simulate\":\"\"}\n"
				 "{\"op\":\"resume\",\"pid\":7,\"simulate\":\"\"}\n");
	serve_answers((const char *const[]){ASKED("0"), inspect_answer(SUSPENDED), NULL});
	CHECK_VIRGATE("suspend", "a"); // the default of --drain is 10 s
	read_file("requests", requests, sizeof requests);
	CHECK_CONTAINS(requests, "\"drain_ms\":10000,");
}

TEST(result_of_each_process_is_printed)
{
	fixture_start();
	serve_answers((const char *const[]){ASKED("1073741824"), inspect_answer(SUSPENDED), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out, "a: process 7 (train): 1.0 GiB, in the host already\n");
	serve_answers((const char *const[]){inspect_answer(SUSPENDED), ASKED("0"), inspect_answer(RUNNING), NULL});
	CHECK_VIRGATE("resume", "a");
	CHECK_STR(result.out, "a: process 7 (train): 1.0 GiB, on the GPU already\n");
	serve_answers(
		(const char *const[]){"{\"ok\":true,\"name\":\"a\",\"asked\":[]}", inspect_answer(RUNNING), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out, "a: suspended, no process runs in it\n");
	// Another process has taken the pid of the suspended program.
	serve_answers((const char *const[]){"{\"ok\":true,\"name\":\"a\",\"asked\":[{\"pid\":7,\"command\":\"old\","
					    "\"started\":1,\"bytes\":1,\"host\":0}]}",
					    inspect_answer(RUNNING), NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out, "a: process 7 (old) has ended\n");
	// The ephemeral vGPU was removed when its program ended.
	serve_answers((const char *const[]){
		ASKED("0"), "{\"ok\":false,\"code\":\"not_found\",\"message\":\"there is no vGPU a\"}", NULL});
	CHECK_VIRGATE("suspend", "a");
	CHECK_STR(result.out, "a: process 7 (train) has ended\n");
	CHECK_STR(result.err, "");
}

TEST(failure_reasons_have_advice)
{
#define GAVE_UP(reason) "\"state\":\"running\",\"suspended\":true,\"pending\":false,\"reason\":\"" reason "\""
	static const struct {
		const char *eviction, *says;
	} cases[] = {
		{GAVE_UP("thread") ",\"call\":\"cuStreamSynchronize\"",
		 "a thread did not return from cuStreamSynchronize in time: wait until it has, or allow more time with "
		 "--drain"},
		{GAVE_UP("thread"), "a thread did not return from a call of the driver in time"},
		{GAVE_UP("gpu"), "the GPU did not finish its work in time"},
		{GAVE_UP("capture"), "a stream capture did not end in time"},
		{GAVE_UP("host") ",\"missing\":1048576",
		 "the host lacks 1.0 MiB: free host memory, or create the vGPU with a larger --swap"},
		{GAVE_UP("driver") ",\"error\":700", "the driver failed with CUDA error 700"},
		{GAVE_UP("strange"), "the process did not report a reason"},
		{"\"state\":\"broken\",\"suspended\":true,\"pending\":true,\"reason\":\"\"",
		 "a copy failed, and its GPU memory is lost"},
		{RUNNING, "it was resumed meanwhile"},
	};
	char says[400];

	fixture_start();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		serve_answers((const char *const[]){ASKED("0"), inspect_answer(cases[i].eviction), NULL});
		CHECK_INT(VIRGATE_RUN("suspend", "a"), 3);
		snprintf(says, sizeof says, "virgate: a: process 7 (train) could not be suspended: %s", cases[i].says);
		CHECK_CONTAINS(result.err, says);
		CHECK_CONTAINS(result.err,
			       "a: `virgate suspend a` tries again, `virgate resume a` resumes all of it\n");
		CHECK_STR(result.out, "");
	}
	serve_answers((const char *const[]){ASKED("0"), inspect_answer(GAVE_UP("gpu")), NULL});
	CHECK_REFUSAL(3, "a: `virgate suspend --pid 7` tries again, `virgate resume --pid 7` cancels it\n", "suspend",
		      "--pid", "7");
}

TEST(refusal_of_daemon_is_printed)
{
	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"unsupported\",\"message\":\"vGPU a is not evictable\"}");
	CHECK_INT(VIRGATE_RUN("suspend", "a"), 1);
	CHECK_STR(result.err, "virgate: vGPU a is not evictable\n");
	serve_answer("{\"ok\":true}");
	CHECK_REFUSAL(1, "no proper \"asked\"", "suspend", "a");
	serve_answers((const char *const[]){inspect_answer(SUSPENDED),
					    "{\"ok\":true,\"name\":\"a\",\"asked\":[{\"pid\":7}]}", NULL});
	CHECK_REFUSAL(1, "no proper ", "resume", "a");
}

// Tests that the command is refused before the processes get a request, and before the driver is loaded.
TEST(deep_suspend_under_mps_is_refused)
{
	char answer[2048], requests[2048];
	const char *read_listing = inspect_answer(RUNNING), *class = strstr(read_listing, "\"turns\"");

	fixture_start();
	snprintf(answer, sizeof answer, "%.*s\"mode\":\"mps\",%s", (int)(class - read_listing), read_listing, class);
	// the check before a deep suspend needs one answer, and the verb itself the other
	serve_answers((const char *const[]){answer, answer, NULL});
	CHECK_REFUSAL(1, "refused (mps): vGPU a is in the mode mps", "suspend", "a", "--deep");
	CHECK_CONTAINS(result.err, "suspend it without --deep");
	CHECK_STR(result.out, "");
	read_file("requests", requests, sizeof requests);
	CHECK(!strstr(requests, "\"suspend\""));
}

TEST(deep_suspend_of_other_user_is_refused)
{
	static const char answer[] =
		"{\"ok\":true,\"vgpu\":{\"name\":\"a\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":2147483648,"
		"\"charged\":0,\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\","
		"\"turns\":null,\"owner\":\"ann\",\"group\":null,\"ephemeral\":false,\"created\":1,\"refusals\":0,"
		"\"evictable\":false,\"eviction\":null,\"tenants\":null}}";

	fixture_start();
	serve_answers((const char *const[]){answer, answer, NULL});
	CHECK_REFUSAL(1, "who runs inside vGPU a is for its owner and root to see", "suspend", "a", "--deep");
	CHECK_STR(result.out, "");
}

TEST(invalid_arguments_are_refused)
{
	static const struct {
		const char *words[6];
		const char *says;
	} cases[] = {
		{{"suspend"}, "give the NAME of a vGPU, or --pid PID"},
		{{"resume"}, "give the NAME of a vGPU, or --pid PID"},
		{{"suspend", "a", "--pid", "7"}, "a vGPU and --pid: give one of them"},
		{{"suspend", "a", "b"}, "unexpected word \"b\""},
		{{"suspend", "--pid", "x"}, "--pid: \"x\" is not a number"},
		{{"suspend", "a", "--drain", "0"}, "--drain: \"0\" is not a number from 1 to 3600"},
		{{"resume", "a", "--drain", "3"}, "unknown option --drain"},
		{{"create", "a", "--memory", "1G", "--swap"}, "--swap needs a value"},
	};

	fixture_start();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_refusal(cases[i].words, 2, cases[i].says);
}

// Returns an answer to `list` with a vGPU that is not evictable. If `eviction` is not NULL, the answer also has the
// vGPU of inspect_answer().
static const char *list_answer(const char *eviction)
{
	static const char plain[] =
		"{\"ok\":true,\"vgpus\":[{\"name\":\"plain\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":1073741824,"
		"\"charged\":0,\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\","
		"\"turns\":null,\"owner\":\"ann\",\"group\":null,\"ephemeral\":false,\"created\":1,\"refusals\":0,"
		"\"evictable\":false,\"eviction\":null,\"tenants\":[{\"pid\":9,\"command\":\"x\",\"charged\":0,"
		"\"overhead\":0,\"physical\":null,\"started\":1,\"eviction\":null}]}]}";
	static char text[8192];
	json_t *list = json_loads(plain, 0, NULL),
	       *one = eviction ? json_loads(inspect_answer(eviction), 0, NULL) : NULL;

	CHECK(list && (one || !eviction));
	if (one)
		json_array_append(json_object_get(list, "vgpus"), json_object_get(one, "vgpu"));
	size_t length = json_dumpb(list, text, sizeof text - 1, 0);
	CHECK(length < sizeof text);
	text[length] = '\0';
	json_decref(list);
	json_decref(one);
	return text;
}

TEST(ps_has_state_columns_only_for_evictable_vgpus)
{
	fixture_start();
	serve_answer(list_answer("\"state\":\"leaving\",\"suspended\":true,\"pending\":true,\"reason\":\"\","
				 "\"host\":268435456"));
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "TENANTS  STATE       ON GPU    IN HOST  MOVES  STALLED\n");
	CHECK_CONTAINS(result.out, "  1  moving   768.0 MiB  256.0 MiB      4    1.5 s\n");
	CHECK_CONTAINS(result.out, "  leaving  768.0 MiB  256.0 MiB      4    1.5 s\n");
	CHECK_CONTAINS(result.out, "  1  -                -          -      -        -\n"); // not evictable
	CHECK_VIRGATE("ps", "plain");
	CHECK(!strstr(result.out, "IN HOST"));
	serve_answer(list_answer(NULL));
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "WAITED  TENANTS\n");
	serve_answer(list_answer("\"state\":\"waiting\",\"suspended\":false,\"pending\":true,\"reason\":\"device\","
				 "\"host\":1073741824,\"missing\":1048576"));
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "\na: process 7 (train) could not be resumed: the GPU lacks 1.0 MiB: end or "
				   "suspend other programs on it; the process resumes when there is room\n");
}

TEST(json_has_all_eviction_fields)
{
	fixture_start();
	serve_answer(list_answer(SUSPENDED));
	json_t *json = read_listing(WORDS("ps", "--json")), *vgpu = json_array_get(json_object_get(json, "vgpus"), 0);
	CHECK_STR(json_string_value(json_object_get(vgpu, "name")), "a");
	CHECK(json_is_true(json_object_get(vgpu, "evictable")));
	CHECK_INT(json_integer_value(json_object_get(vgpu, "swap")), 512 * MIB);
	json_t *eviction = json_object_get(vgpu, "eviction");
	CHECK_STR(json_string_value(json_object_get(eviction, "state")), "moving");
	CHECK(json_is_true(json_object_get(eviction, "suspended")));
	CHECK_INT(json_integer_value(json_object_get(eviction, "on_gpu")), 768 * MIB);
	CHECK_INT(json_integer_value(json_object_get(eviction, "in_host")), 256 * MIB);
	CHECK_INT(json_object_size(eviction), 4);
	eviction = json_object_get(json_array_get(json_object_get(vgpu, "tenants"), 0), "eviction");
	CHECK_STR(json_string_value(json_object_get(eviction, "state")), "suspended");
	CHECK(json_is_true(json_object_get(eviction, "suspended")));
	CHECK(json_is_false(json_object_get(eviction, "pending")));
	CHECK(json_is_null(json_object_get(eviction, "reason")));
	CHECK(json_is_null(json_object_get(eviction, "call")));
	CHECK_INT(json_integer_value(json_object_get(eviction, "bytes")), GIB);
	CHECK_INT(json_integer_value(json_object_get(eviction, "host")), GIB);
	CHECK(json_real_value(json_object_get(eviction, "in_state")) == 3);
	CHECK(json_real_value(json_object_get(eviction, "moved")) == 0.25);
	CHECK(json_real_value(json_object_get(eviction, "waited")) == 1.5);
	CHECK_INT(json_integer_value(json_object_get(eviction, "waiting")), 2);
	CHECK_INT(json_integer_value(json_object_get(eviction, "moves")), 4);
	CHECK_INT(json_object_size(eviction), 16);
	vgpu = json_array_get(json_object_get(json, "vgpus"), 1);
	CHECK(json_is_false(json_object_get(vgpu, "evictable")));
	CHECK(json_is_null(json_object_get(vgpu, "swap")));
	CHECK(json_is_null(json_object_get(vgpu, "eviction")));
	CHECK(json_is_null(json_object_get(json_array_get(json_object_get(vgpu, "tenants"), 0), "eviction")));
	json_decref(json);
}

TEST(inspect_shows_eviction)
{
	fixture_start();
	serve_answer(inspect_answer(SUSPENDED));
	CHECK_VIRGATE("inspect", "a");
	CHECK_CONTAINS(result.out, "\nevictable  up to 512.0 MiB of host memory for each process, up to "
				   "96.0 MiB of memory that cannot move\n"
				   "memory     moving: 768.0 MiB on the GPU, 256.0 MiB in the host\n");
	CHECK_CONTAINS(result.out, "  STATE      IN HOST\n");
	CHECK_CONTAINS(result.out, "  suspended  1.0 GiB\n");
}

// ---- the options of vGPUs --------------------------------------------------------------------------------

TEST(create_requests_evictable_vgpus)
{
	char requests[2048];

	fixture_start();
	serve_answer("{\"ok\":true,\"vgpu\":{}}");
	CHECK_VIRGATE("create", "a", "--memory", "2G", "--evictable", "--swap", "1.5G");
	CHECK_STR(result.out, "a: 2.0 GiB, evictable\n");
	CHECK_VIRGATE("create", "b", "-m", "2G", "-e");
	serve_answer("{\"ok\":false,\"code\":\"limit\",\"message\":\"full\"}");
	CHECK_INT(VIRGATE_RUN("run", "--memory", "2G", "--evictable", "true"), 125);
	setenv("VIRGATE_EVICTABLE", "yes", 1);
	setenv("VIRGATE_SWAP", "512M", 1);
	CHECK_INT(VIRGATE_RUN("run", "--memory", "2G", "true"), 125);
	CHECK_INT(VIRGATE_RUN("run", "--memory", "2G", "--swap", "1G", "true"), 125);
	setenv("VIRGATE_EVICTABLE", "no", 1);
	CHECK_INT(VIRGATE_RUN("run", "--memory", "2G", "true"), 125);
	unsetenv("VIRGATE_EVICTABLE");
	unsetenv("VIRGATE_SWAP");
	read_file("requests", requests, sizeof requests);
	CHECK_STR(requests,
		  "{\"op\":\"create\",\"memory\":2147483648,\"name\":\"a\",\"evictable\":true,\"swap\":1610612736,"
		  "\"simulate\":\"\"}\n"
		  "{\"op\":\"create\",\"memory\":2147483648,\"name\":\"b\",\"evictable\":true,\"simulate\":\"\"}\n"
		  "{\"op\":\"enter\",\"memory\":2147483648,\"evictable\":true,\"simulate\":\"\"}\n"
		  "{\"op\":\"enter\",\"memory\":2147483648,\"evictable\":true,\"swap\":536870912,\"simulate\":\"\"}\n"
		  "{\"op\":\"enter\",\"memory\":2147483648,\"evictable\":true,\"swap\":1073741824,\"simulate\":\"\"}\n"
		  "{\"op\":\"enter\",\"memory\":2147483648,\"simulate\":\"\"}\n");
}

// ---- the real daemon -------------------------------------------------------------------------------------

static char ledger_path[200];
static pid_t players[4];
static size_t player_count;

// Ends the stand-ins for pagers. Also called after a test that failed, because node_stop() waits for all children.
static void stop_players(void)
{
	for (; player_count; player_count--) {
		kill(players[player_count - 1], SIGKILL);
		waitpid(players[player_count - 1], NULL, 0);
	}
}

static void start_evictable(void)
{
	static bool registered;

	stop_players();
	node_start();
	if (!registered)
		atexit(stop_players); // runs before node_stop
	registered = true;
	CHECK_VIRGATE("create", "a", "--memory", "1G", "--device", "0", "--evictable", "--swap", "64M");
	snprintf(ledger_path, sizeof ledger_path, "%s/ledgers/a", fixture.runtime);
}

static pid_t play_pager(struct player_plan plan)
{
	return players[player_count++] = start_player(ledger_path, &plan);
}

static const char *find_line(pid_t pid, const char *rest)
{
	static char line[512];

	snprintf(line, sizeof line, "a: process %d (test-suspend)%s", (int)pid, rest);
	return line;
}

TEST(vgpu_is_suspended_and_resumed)
{
	start_evictable();
	pid_t first = play_pager((struct player_plan){.bytes = 256 * MIB, .slow_ms = 100});
	pid_t second = play_pager((struct player_plan){0});
	CHECK_VIRGATE("suspend", "a");
	CHECK_CONTAINS(result.out, find_line(first, ": 256.0 MiB to the host in 0.1"));
	CHECK_CONTAINS(result.out, find_line(second, ": no GPU memory to move\n"));
	CHECK_STR(result.err, "");
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "  2  suspended     0 B  256.0 MiB  ");
	CHECK_REFUSAL(1, "vGPU a is suspended already", "suspend", "a");
	CHECK_VIRGATE("resume", "a");
	CHECK_CONTAINS(result.out, find_line(first, ": 256.0 MiB to the GPU in 0.1"));
	char pid[16];
	snprintf(pid, sizeof pid, "%d", (int)first);
	CHECK_VIRGATE("suspend", "--pid", pid);
	CHECK_VIRGATE("resume", "--pid", pid);
	stop_players();
}

TEST(other_processes_stay_suspended)
{
	start_evictable();
	pid_t good = play_pager((struct player_plan){.bytes = 64 * MIB}),
	      other = play_pager((struct player_plan){.bytes = 64 * MIB});
	pid_t bad = play_pager((struct player_plan){.bytes = 64 * MIB, .reason = PAGER_GPU});
	CHECK_INT(VIRGATE_RUN("suspend", "a"), 3);
	CHECK_CONTAINS(result.out, find_line(good, ": 64.0 MiB to the host"));
	CHECK_CONTAINS(result.out, find_line(other, ": 64.0 MiB to the host"));
	CHECK_CONTAINS(result.err, find_line(bad, " could not be suspended: the GPU did not finish its work in time"));
	CHECK_CONTAINS(result.err, "; the others stay suspended\n");
	CHECK_CONTAINS(result.err, "a: `virgate suspend --sim=devices=2,memory=4G a` tries again");
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "  3  partly suspended  64.0 MiB  128.0 MiB  ");
	CHECK_CONTAINS(result.out, find_line(bad, " could not be suspended: the GPU did not finish"));
	CHECK_VIRGATE("resume", "a");
	stop_players();
}

// The command gives up 2 s after the limit of 1 s. It waits longer for a process that is moving memory, depending on
// the number of bytes.
TEST(silent_process_times_out)
{
	start_evictable();
	pid_t silent = play_pager((struct player_plan){.bytes = 64 * MIB, .is_silent = true});
	pid_t slow = play_pager((struct player_plan){.bytes = 896 * MIB, .slow_ms = 3300});
	uint64_t begin_ns = vg_clock_monotonic_ns();
	CHECK_INT(VIRGATE_RUN("suspend", "a", "--drain", "1"), 3);
	uint64_t waited_ms = (vg_clock_monotonic_ns() - begin_ns) / 1000000;
	CHECK(waited_ms >= 3000);
	CHECK_CONTAINS(result.err, find_line(silent, " could not be suspended: it did not answer within "));
	CHECK_CONTAINS(result.err, " s: is it stopped (SIGSTOP, a debugger), or does it load a large module? The "
				   "request takes effect when it runs again; the other stays suspended\n");
	CHECK_CONTAINS(result.out, find_line(slow, ": 896.0 MiB to the host in "));
	stop_players();
}

// The command gives up while the process is still copying. The request remains in effect, and the copy continues.
TEST(slow_move_times_out)
{
	start_evictable();
	pid_t slow = play_pager((struct player_plan){.bytes = 1, .slow_ms = 60000});
	CHECK_REFUSAL(3,
		      find_line(slow, " could not be suspended: its memory was still moving after 3 s; the move "
				      "continues, see `virgate ps --sim=devices=2,memory=4G a`\n"),
		      "suspend", "a", "--drain", "1");
	stop_players();
}

TEST(ended_process_is_no_failure)
{
	start_evictable();
	pid_t silent = play_pager((struct player_plan){.bytes = 64 * MIB, .is_silent = true});
	pid_t child = start_program(WORDS("suspend", "a"));
	struct vg_ledger *ledger;
	CHECK_INT(vg_ledger_open(ledger_path, &ledger), 0);
	for (int i = 0; i < 2000 && !vg_ledger_pager_page(ledger)->out; i++)
		usleep(5000);
	CHECK(vg_ledger_pager_page(ledger)->out);
	vg_ledger_close(ledger);
	stop_players();
	CHECK_INT(wait_for_program(child), 0);
	CHECK_STR(result.out, find_line(silent, " has ended\n"));
}
