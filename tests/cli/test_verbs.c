// Tests the verbs against a stand-in for the daemon: messages, tables, JSON, exit codes.
#include <jansson.h>

#include "fixture.h"

#define GIB 1073741824

static const char list_answer[] =
	"{\"ok\":true,\"vgpus\":[{\"name\":\"train\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":8589934592,"
	"\"charged\":1610612736,\"overhead\":536870912,\"physical\":1610612736,\"share\":30,"
	"\"share_limit\":true,\"class\":\"latency\","
	"\"turns\":{\"mode\":\"time\",\"held\":false,\"reason\":\"a process is stopped\",\"regime\":\"turns\","
	"\"holder\":\"another\",\"recent\":29.84,\"gpu_ns\":245000000000,\"waited_ns\":12340000000,\"turns\":812,"
	"\"quantum_ns\":8400000,\"handovers\":118.5,\"weight\":42.9},"
	"\"owner\":\"ann\",\"group\":\"lab\",\"ephemeral\":false,\"created\":1700000000.5,\"refusals\":2,\"tenants\":"
	"[{\"pid\":4711,\"command\":\"py\\u001bthon\",\"charged\":1610612736,\"overhead\":536870912,\"physical\":null,"
	"\"started\":1700000001.25,\"guest\":false},{\"pid\":4712,\"command\":\"reader\",\"charged\":0,\"overhead\":0,"
	"\"physical\":null,\"started\":1700000002,\"guest\":true},{\"pid\":4713,\"command\":\"writer\",\"charged\":0,"
	"\"overhead\":0,\"physical\":0,\"started\":1700000003,\"ended\":true}],\"shared\":268435456},"
	"{\"name\":\"another\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":1073741824,\"charged\":0,\"overhead\":0,"
	"\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\",\"turns\":null,"
	"\"owner\":\"bob\",\"group\":null,\"ephemeral\":true,"
	"\"damaged\":true,"
	"\"created\":1700000002,\"refusals\":0,\"tenants\":null,\"shared\":5}]}";

static json_t *parse_output(void)
{
	json_error_t error;
	json_t *json = json_loads(result.out, 0, &error);

	if (!json)
		FAIL("not JSON (%s): %s", error.text, result.out);
	CHECK_INT(json_integer_value(json_object_get(json, "schema")), 1);
	return json;
}

TEST(ps_prints_a_table)
{
	fixture_start();
	serve_answer(list_answer);
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "NAME                      OWNER  DEVICE ");
	CHECK_CONTAINS(result.out, "\ntrain                     ann    0  ");
	CHECK_CONTAINS(result.out, "\nanother                   bob    0  ");
	CHECK_CONTAINS(result.out, "1.5 GiB / 8.0 GiB");
	CHECK_CONTAINS(result.out, "512.0 MiB");
	CHECK_CONTAINS(result.out, "SHARE     GPU   TIME  WAITED  TENANTS\n");
	// The last column counts neither the ended program nor the guest, which has only opened memory of the vGPU.
	CHECK_CONTAINS(result.out, "   30 %  29.8 %  4m05s  12.3 s        1\n");
	CHECK_CONTAINS(result.out, "      -       -      -       -        -\n"); // unknown is not zero
	CHECK_CONTAINS(result.out, "\ntrain: the share of 30 % is not being held: a process is stopped\n");
	CHECK(!strstr(result.out, "\nanother: "));
	CHECK(strcspn(result.out, "\n") <= 120);
	CHECK_CONTAINS(result.out, "damaged / 1.0 GiB");
	CHECK_CONTAINS(result.out, "4711 py?thon"); // control characters are replaced
	CHECK_CONTAINS(result.out, "4712 reader (guest)");
	CHECK_CONTAINS(result.out, "4713 writer (ended)");
	const char *shared = strstr(result.out, "- (shared, owner gone)");
	CHECK(shared && strstr(shared, "  256.0 MiB  "));
	// nothing is shown for a damaged vGPU, since its ledger is invalid
	CHECK(!strstr(result.out, "5 B"));
	CHECK(strstr(result.out, "another") < strstr(result.out, "train")); // sorted by name
	CHECK_STR(result.err, "");
	CHECK_VIRGATE("ps", "--quiet");
	CHECK(!strstr(result.out, "4711"));
	CHECK(!strstr(result.out, "shared"));
	CHECK_CONTAINS(result.out, "  12.3 s        1\n");
	CHECK_CONTAINS(result.out, "\ntrain: the share of 30 % is not being held: a process is stopped\n");
}

TEST(ps_prints_json)
{
	fixture_start();
	serve_answer(list_answer);
	CHECK_VIRGATE("ps", "--json");
	json_t *json = parse_output();
	json_t *train = json_array_get(json_object_get(json, "vgpus"), 1);
	json_t *other = json_array_get(json_object_get(json, "vgpus"), 0);
	static const char *const keys[] = {"name",     "device",   "uuid",	"memory",  "charged",	"overhead",
					   "physical", "share",	   "owner",	"group",   "ephemeral", "share_limit",
					   "created",  "refusals", "tenants",	"damaged", "shared",	"class",
					   "turns",    "mode",	   "evictable", "swap",	   "fixed",	"idle_suspend",
					   "eviction", "drained",  "job"};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!json_object_get(train, keys[i]))
			FAIL("no %s", keys[i]);
	CHECK_INT(json_object_size(train), sizeof keys / sizeof *keys);
	CHECK_STR(json_string_value(json_object_get(train, "name")), "train");
	CHECK(json_is_integer(json_object_get(train, "memory")));
	CHECK_INT(json_integer_value(json_object_get(train, "memory")), 8ll * GIB);
	CHECK_INT(json_integer_value(json_object_get(train, "share")), 30);
	CHECK(json_is_true(json_object_get(train, "share_limit")));
	CHECK_STR(json_string_value(json_object_get(train, "class")), "latency");
	json_t *turns = json_object_get(train, "turns");
	CHECK(json_is_false(json_object_get(turns, "held")));
	CHECK_STR(json_string_value(json_object_get(turns, "reason")), "a process is stopped");
	CHECK_STR(json_string_value(json_object_get(turns, "holder")), "another");
	CHECK(json_real_value(json_object_get(turns, "recent")) == 29.84);
	CHECK(json_real_value(json_object_get(turns, "gpu_time")) == 245);
	CHECK(json_real_value(json_object_get(turns, "waited")) == 12.34);
	CHECK(json_real_value(json_object_get(turns, "quantum")) == 0.0084);
	CHECK_INT(json_object_size(turns), 11);
	CHECK(json_is_null(json_object_get(other, "turns")));
	CHECK(json_is_real(json_object_get(train, "created")));
	CHECK(json_real_value(json_object_get(train, "created")) == 1700000000.5);
	json_t *tenant = json_array_get(json_object_get(train, "tenants"), 0);
	CHECK_INT(json_integer_value(json_object_get(tenant, "pid")), 4711);
	CHECK(json_is_null(json_object_get(tenant, "physical"))); // unknown is not zero
	CHECK(json_is_false(json_object_get(tenant, "guest")));
	CHECK(json_is_false(json_object_get(tenant, "ended")));
	CHECK(json_is_null(json_object_get(tenant, "container")));
	CHECK(json_is_null(json_object_get(tenant, "image")));
	CHECK(json_is_false(json_object_get(tenant, "outside")));
	CHECK_INT(json_object_size(tenant), 13);
	tenant = json_array_get(json_object_get(train, "tenants"), 1);
	CHECK(json_is_true(json_object_get(tenant, "guest")));
	tenant = json_array_get(json_object_get(train, "tenants"), 2);
	CHECK(json_is_true(json_object_get(tenant, "ended")));
	CHECK_INT(json_integer_value(json_object_get(train, "shared")), 268435456);
	CHECK(json_is_null(json_object_get(other, "share")));
	CHECK(json_is_null(json_object_get(other, "group")));
	CHECK(json_is_true(json_object_get(other, "damaged")));
	CHECK(json_is_null(json_object_get(other, "charged")));
	CHECK(json_is_null(json_object_get(other, "shared")));
	CHECK(json_is_null(json_object_get(other, "tenants")));
	CHECK(json_is_false(json_object_get(train, "damaged")));
	json_decref(json);
}

TEST(ps_shows_named_vgpus)
{
	fixture_start();
	serve_answer(list_answer);
	CHECK_VIRGATE("ps", "another");
	CHECK_CONTAINS(result.out, "another");
	CHECK(!strstr(result.out, "train"));
	CHECK_VIRGATE("ps", "--json", "train", "another");
	json_t *json = parse_output();
	CHECK_INT(json_array_size(json_object_get(json, "vgpus")), 2);
	json_decref(json);
	CHECK_INT(VIRGATE_RUN("ps", "trian"), 1);
	CHECK_STR(result.err, "virgate: there is no vGPU \"trian\": did you mean \"train\"?\n");
	CHECK_STR(result.out, "");
	CHECK_INT(VIRGATE_RUN("ps", "train", "zebra"), 1); // the vGPUs that exist are shown
	CHECK_STR(result.err, "virgate: there is no vGPU \"zebra\"\n");
	CHECK_CONTAINS(result.out, "4711");
	CHECK_REFUSAL(1, "did you mean \"train\"?", "ps", "--watch", "trian");
}

TEST(list_is_an_alias_of_ps)
{
	char table[4096];

	fixture_start();
	serve_answer(list_answer);
	CHECK_VIRGATE("ps");
	strcpy(table, result.out);
	CHECK_VIRGATE("list");
	CHECK_STR(result.out, table);
	CHECK_VIRGATE("help", "list");
	CHECK_CONTAINS(result.out, "usage: virgate ps ");
	CHECK_CONTAINS(result.out, "`virgate list` means the same.");
	CHECK_REFUSAL(2, "did you mean \"list\"?", "lits");
	CHECK_VIRGATE("help");
	CHECK(!strstr(result.out, "\n  list "));
}

// The figures of a damaged vGPU are missing or invalid in the daemon's answer. The other vGPUs must be shown all the
// same.
TEST(damaged_vgpu_has_a_row)
{
	static const char figures[] = "\"charged\":0,\"overhead\":0,\"physical\":null,\"share\":0";
	char answer[4096];

	fixture_start();
	const char *at = strstr(list_answer, figures);
	CHECK(at);
	snprintf(answer, sizeof answer, "%.*s\"charged\":-1,\"physical\":null,\"share\":0%s", (int)(at - list_answer),
		 list_answer, at + strlen(figures));
	serve_answer(answer);
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "damaged / 1.0 GiB          -         -");
	CHECK_CONTAINS(result.out, "1.5 GiB / 8.0 GiB");
	CHECK_STR(result.err, "");
}

TEST(inspect_shows_one_vgpu)
{
	char answer[2048];

	fixture_start();
	const char *first = strchr(list_answer, '[') + 1, *end = strstr(first, "},{\"name\":\"another\"");
	snprintf(answer, sizeof answer, "{\"ok\":true,\"vgpu\":%.*s}",
		 (int)(strstr(first, ",{\"name\":\"another\"") - first), first);
	CHECK(end);
	serve_answer(answer);
	CHECK_VIRGATE("inspect", "train");
	CHECK_CONTAINS(result.out, "8.0 GiB (8589934592 bytes)");
	CHECK_CONTAINS(result.out, "share      at most 30 %, latency class\n"
				   "mode       time\n"
				   "held       no: a process is stopped\n"
				   "measured   29.8 % in the last 10 s, entitled to 42.9 % among the vGPUs active now\n"
				   "GPU time   4m05s used, 12.3 s waited, 812 turns\n"
				   "quantum    8.4 ms, 118.5 handovers per second\n"
				   "holder     another\n");
	CHECK_CONTAINS(result.out, "until it is removed");
	CHECK_CONTAINS(result.out, "shared     256.0 MiB (268435456 bytes)");
	CHECK_CONTAINS(result.out, "4712  reader (guest)");
	CHECK_CONTAINS(result.out, "4713  writer (ended)");
	CHECK_VIRGATE("inspect", "--json", "train");
	json_t *json = parse_output();
	CHECK_INT(json_integer_value(json_object_get(json_object_get(json, "vgpu"), "charged")), 1610612736);
	json_decref(json);
}

TEST(devices_are_listed)
{
	fixture_start();
	serve_answer(
		"{\"ok\":true,\"devices\":[{\"index\":0,\"uuid\":\"GPU-1\",\"name\":\"NVIDIA "
		"Something\",\"memory\":8589934592,"
		"\"memory_used\":1073741824,\"compute_capability\":\"9.0\",\"driver\":\"580.1\",\"simulated\":true,"
		"\"reserved\":2147483648,\"vgpus\":2}]}");
	CHECK_VIRGATE("devices");
	CHECK_CONTAINS(result.out, "NVIDIA Something (simulated)");
	CHECK_CONTAINS(result.out, "2.0 GiB");
	CHECK_VIRGATE("devices", "--json");
	json_t *json = parse_output(), *device = json_array_get(json_object_get(json, "devices"), 0);
	CHECK_INT(json_integer_value(json_object_get(device, "reserved")), 2ll * GIB);
	CHECK_STR(json_string_value(json_object_get(device, "compute_capability")), "9.0");
	CHECK(json_is_true(json_object_get(device, "simulated")));
	json_decref(json);
}

TEST(logs_list_refusals)
{
	fixture_start();
	serve_answer("{\"ok\":true,\"refusals\":[{\"time\":1700000000.25,\"pid\":12,\"entry\":\"cuMemAlloc_v2\","
		     "\"asked\":"
		     "2147483648,"
		     "\"charged\":7516192768,\"limit\":8589934592,\"overhead\":536870912}]}");
	CHECK_VIRGATE("logs", "train");
	CHECK_CONTAINS(result.out, "cuMemAlloc_v2");
	CHECK_CONTAINS(result.out, "7.0 GiB");
	CHECK_VIRGATE("logs", "train", "--json");
	json_t *json = parse_output(), *refusal = json_array_get(json_object_get(json, "refusals"), 0);
	CHECK_STR(json_string_value(json_object_get(json, "name")), "train");
	CHECK_INT(json_integer_value(json_object_get(refusal, "asked")), 2ll * GIB);
	CHECK(json_real_value(json_object_get(refusal, "time")) == 1700000000.25);
	json_decref(json);
	serve_answer("{\"ok\":true,\"refusals\":[]}");
	CHECK_VIRGATE("logs", "train");
	CHECK_CONTAINS(result.out, "nothing was refused");
}

TEST(requests_contain_options)
{
	char requests[4096];

	fixture_start();
	serve_answer("{\"ok\":true,\"vgpu\":{}}");
	CHECK_INT(
		VIRGATE_RUN("create", "train", "--memory", "1.5G", "--share", "30", "--device", "1", "--group", "lab"),
		0);
	CHECK_STR(result.out, "train: 1.5 GiB, share 30 %\n");
	CHECK_VIRGATE("create", "slow", "-m", "1G", "--share", "5", "--limit", "--class", "latency");
	CHECK_STR(result.out, "slow: 1.0 GiB, share at most 5 %, latency class\n");
	CHECK_VIRGATE("create", "fast", "-m", "1G", "--class", "latency");
	CHECK_STR(result.out, "fast: 1.0 GiB, share none, latency class\n");
	CHECK_VIRGATE("create", "batch", "-m", "1G", "--class", "batch");
	CHECK_STR(result.out, "batch: 1.0 GiB\n");
	CHECK_VIRGATE("set", "train", "--memory", "2G");
	CHECK_VIRGATE("set", "train", "--share", "40");
	CHECK_STR(result.out, "train: share 40 %\n");
	CHECK_VIRGATE("rm", "a", "b");
	serve_answer("{\"ok\":true,\"signalled\":2}");
	CHECK_VIRGATE("kill", "a", "b");
	CHECK_STR(result.out, "a: sent TERM to 2 processes\nb: sent TERM to 2 processes\n");
	CHECK_VIRGATE("kill", "a", "--signal", "sigkill");
	CHECK_VIRGATE("kill", "a", "-s", "64");
	CHECK_STR(result.out, "a: sent signal 64 to 2 processes\n");
	read_file("requests", requests, sizeof requests);
	CHECK_STR(requests, "{\"op\":\"create\",\"memory\":1610612736,\"name\":\"train\",\"share\":30,\"device\":\"1\","
			    "\"group\":\"lab\",\"simulate\":\"\"}\n"
			    "{\"op\":\"create\",\"memory\":1073741824,\"name\":\"slow\",\"share\":5,"
			    "\"share_limit\":true,\"class\":\"latency\",\"simulate\":\"\"}\n"
			    "{\"op\":\"create\",\"memory\":1073741824,\"name\":\"fast\",\"class\":\"latency\","
			    "\"simulate\":\"\"}\n"
			    "{\"op\":\"create\",\"memory\":1073741824,\"name\":\"batch\",\"simulate\":\"\"}\n"
			    "{\"op\":\"set\",\"name\":\"train\",\"memory\":2147483648,\"simulate\":\"\"}\n"
			    "{\"op\":\"set\",\"name\":\"train\",\"share\":40,\"simulate\":\"\"}\n"
			    "{\"op\":\"rm\",\"name\":\"a\",\"simulate\":\"\"}\n"
			    "{\"op\":\"rm\",\"name\":\"b\",\"simulate\":\"\"}\n"
			    "{\"op\":\"kill\",\"name\":\"a\",\"signal\":15,\"simulate\":\"\"}\n"
			    "{\"op\":\"kill\",\"name\":\"b\",\"signal\":15,\"simulate\":\"\"}\n"
			    "{\"op\":\"kill\",\"name\":\"a\",\"signal\":9,\"simulate\":\"\"}\n"
			    "{\"op\":\"kill\",\"name\":\"a\",\"signal\":64,\"simulate\":\"\"}\n");
}

// Without --memory, the daemon chooses the memory. `create` then requests the vGPU again, to print how much memory it
// got.
TEST(share_without_memory_omits_memory)
{
	char inspected[2048], requests[1024];

	fixture_start();
	const char *first = strchr(list_answer, '[') + 1;
	snprintf(inspected, sizeof inspected, "{\"ok\":true,\"vgpu\":%.*s}",
		 (int)(strstr(first, ",{\"name\":\"another\"") - first), first);
	serve_answers((const char *const[]){"{\"ok\":true,\"vgpu\":{}}", inspected, NULL});
	CHECK_VIRGATE("create", "train", "--share", "30");
	CHECK_STR(result.out, "train: 8.0 GiB, share 30 %\n");
	read_file("requests", requests, sizeof requests);
	CHECK_STR(requests, "{\"op\":\"create\",\"name\":\"train\",\"share\":30,\"simulate\":\"\"}\n"
			    "{\"op\":\"inspect\",\"name\":\"train\",\"simulate\":\"\"}\n");
}

TEST(kill_reports_count)
{
	fixture_start();
	serve_answer("{\"ok\":true,\"signalled\":1}");
	CHECK_VIRGATE("kill", "train", "--signal=HUP");
	CHECK_STR(result.out, "train: sent HUP to 1 process\n");
	serve_answer("{\"ok\":true,\"signalled\":0}");
	CHECK_VIRGATE("kill", "train");
	CHECK_STR(result.out, "train: no process runs in it, TERM was not sent\n");
	serve_answer("{\"ok\":false,\"code\":\"denied\",\"message\":\"not yours\"}");
	CHECK_INT(VIRGATE_RUN("kill", "train"), 1);
	CHECK_STR(result.err, "virgate: not yours\n");
	serve_answer("{\"ok\":true,\"signalled\":-1}");
	CHECK_INT(VIRGATE_RUN("kill", "train"), 1);
}

TEST(refusal_of_daemon_is_shown)
{
	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"busy\",\"message\":\"train: asked 1.0 GiB, 7.1 GiB are in use\"}");
	CHECK_INT(VIRGATE_RUN("set", "train", "--memory", "1G"), 1);
	CHECK_STR(result.err, "virgate: train: asked 1.0 GiB, 7.1 GiB are in use\n");
	CHECK_STR(result.out, "");
	CHECK_INT(VIRGATE_RUN("rm", "train"), 1);
	CHECK_REFUSAL(125, "7.1 GiB are in use", "run", "--vgpu", "train", "true");
}

TEST(invalid_input_sends_no_request)
{
	static const struct {
		const char *words[8];
		int code;
		const char *says;
	} cases[] = {
		{{"create", "train", "--memory", "-1G"}, 2, "is negative"},
		{{"create", "train", "--memory", "0"}, 2, "is zero"},
		{{"create", "train", "--memory", "99999999999T"}, 2, "more than 2^63"},
		{{"create", "train", "--memory", "lots"}, 2, "is not a size"},
		{{"create", "train", "--memory", ""}, 2, "is empty"},
		{{"create", "train", "--memory", "--"}, 2, "--memory needs a value"},
		{{"create", "train"}, 2, "how much memory?"},
		{{"create", "train", "--memory", "1G", "--share", "0"}, 2, "from 1 to 100"},
		{{"create", "train", "--memory", "1G", "--share", "101"}, 2, "from 1 to 100"},
		{{"create", "train", "--memory", "1G", "--share", "ten"}, 2, "from 1 to 100"},
		{{"create", "train", "--share", "30.5"}, 2, "from 1 to 100"},
		{{"create", "train", "--share", "-3"}, 2, "from 1 to 100"},
		{{"create", "train", "--memory", "1G", "--limit"}, 2, "--limit needs a share: give --share PERCENT"},
		{{"create", "train", "--share", "30", "--limit=20"}, 2, "--limit takes no value"},
		{{"create", "train", "--share", "30", "--class", "latncy"}, 2, "is not a class: did you mean latency?"},
		{{"create", "train", "--share", "30", "--class", "x"}, 2, "is not a class: use batch or latency"},
		{{"create", "train", "--share", "30", "--mode", "mp"}, 2, "is not a mode: did you mean mps?"},
		{{"create", "train", "--share", "30", "--mode", "driver"}, 2, "is not a mode: use time or mps"},
		{{"run", "--share", "30", "--mode", "", "true"}, 125, "is not a mode"},
		{{"run", "--vgpu", "train", "--mode", "mps", "true"}, 125, "--mode describes a new one"},
		{{"run", "--share", "0", "true"}, 125, "from 1 to 100"},
		{{"run", "--share", "101", "true"}, 125, "from 1 to 100"},
		{{"run", "--memory", "1G", "--limit", "true"}, 125, "--limit needs a share"},
		{{"run", "--share", "30", "--class", "Batch", "true"}, 125, "did you mean batch?"},
		{{"run", "--vgpu", "train", "--limit", "true"}, 125, "--limit describes a new one"},
		{{"run", "--vgpu", "train", "--class", "batch", "true"}, 125, "--class describes a new one"},
		{{"create", "train", "--memory", "1G", "--swap", "1G"},
		 2,
		 "--swap is for evictable vGPUs: give --evictable"},
		{{"create", "train", "-m", "1G", "--evictable", "--swap", "0"}, 2, "--swap: \"0\" is zero"},
		{{"create", "train", "-m", "1G", "--evictable", "--swap", "lots"}, 2, "is not a size"},
		{{"create", "train", "-m", "1G", "--evictable=yes"}, 2, "--evictable takes no value"},
		{{"run", "--memory", "1G", "--swap", "1G", "true"}, 125, "--swap is for evictable vGPUs"},
		{{"create", "a", "-m", "1G", "--idle-suspend", "30"}, 2, "--idle-suspend is for evictable vGPUs"},
		{{"create", "a", "-m", "1G", "--evictable", "--idle-suspend", "0"},
		 2,
		 "--idle-suspend: \"0\" is not a time"},
		{{"run", "--vgpu", "train", "--idle-suspend", "30", "true"}, 125, "--idle-suspend describes a new one"},
		{{"run", "--vgpu", "train", "--evictable", "true"}, 125, "--evictable describes a new one"},
		{{"run", "--vgpu", "train", "--swap", "1G", "true"}, 125, "--swap describes a new one"},
		{{"set", "train", "--share", "101"}, 2, "from 1 to 100"},
		{{"set", "train", "--share", "half"}, 2, "from 1 to 100"},
		{{"create", "a/b", "--memory", "1G"}, 1, "a character that names cannot have"},
		{{"create", "-a", "--memory", "1G"}, 2, "unknown option -a"},
		{{"create", ".a", "--memory", "1G"}, 1, "must begin with a letter or a digit"},
		{{"create", "", "--memory", "1G"}, 1, "the name is empty"},
		{{"create", "t\xc3\xa4st", "--memory", "1G"}, 1, "a character that names cannot have"},
		{{"create", "a234567890123456789012345678901234567890123456789012345678901234", "-m", "1G"},
		 1,
		 "63 is the most"},
		{{"create", "--memory", "1G"}, 2, "a name is missing"},
		{{"set", "train"}, 2, "nothing to change"},
		{{"inspect", "../x"}, 1, "must begin"},
		{{"inspect"}, 2, "a name is missing"},
		{{"kill"}, 2, "a name is missing"},
		{{"kill", "a", "--signal", "TREM"}, 2, "\"TREM\" is not a signal: did you mean TERM?"},
		{{"kill", "a", "--signal", "sigtrem"}, 2, "did you mean TERM?"},
		{{"kill", "a", "--signal", "0"}, 2, "\"0\" is not a signal"},
		{{"kill", "a", "--signal", "65"}, 2, "give a name such as KILL, or 1 to 64"},
		{{"kill", "a", "--signal", "9x"}, 2, "\"9x\" is not a signal"},
		{{"kill", "a/b"}, 1, "a character that names cannot have"},
		{{"audit", "verify"}, 2, "a file is missing"},
		{{"key", "create"}, 2, "a file is missing"},
		{{"ps", "--jsno"}, 2, "did you mean --json?"},
		{{"pss"}, 2, "did you mean \"ps\"?"},
		{{"zebra"}, 2, "unknown verb \"zebra\""},
		{{"help", "rnu"}, 2, "did you mean \"run\"?"},
		{{"help", "run", "true"}, 2, "unexpected word \"true\""},
		{{"share"}, 2, "usage: virgate share VERB"},
		{{"share", "prodcue"}, 2, "unknown verb \"share prodcue\": did you mean \"share produce\"?"},
		{{"share", "--sim"}, 2, "unknown verb \"share --sim\""},
		{{"help", "share", "slftest"}, 2, "did you mean \"share selftest\"?"},
		{{"shraes"}, 2, "did you mean \"share\"?"},
		{{"produce", "--sim"}, 2, "unknown verb \"produce\": did you mean \"share produce\"?"},
		{{"share", "produce", "word"}, 2, "unexpected word \"word\""},
		{{"share", "produce", "--timeout", "0"}, 2, "\"0\" is not a time"},
		{{"share", "consume", "--timeout", "soon"}, 2, "\"soon\" is not a time"},
		{{"share", "selftest", "--socket", ""}, 2, "the path is empty"},
		{{"share", "consume", "--device"}, 2, "--device needs a value"},
		{{"run", "true"}, 125, "how much memory?"},
		{{"run", "--memory", "x", "true"}, 125, "is not a size"},
		{{"run", "--memory", "1G"}, 125, "the command to run is missing"},
		{{"run", "--memory", "--", "true"}, 125, "--memory needs a value"},
		{{"inspect", "a\nb\033[2J"}, 1, "the name \"a?b?[2J\" has"},
		{{"run", "--vgpu", "a", "--memory", "1G", "true"}, 125, "--vgpu names a vGPU that exists"},
		{{"run", "--vgpu", "a", "--share", "3", "true"}, 125, "--vgpu names a vGPU that exists"},
		{{"run", "--vgpu", "a b", "true"}, 125, "a character that names cannot have"},
		{{"run", "--memory", "1G", "--name", "a b", "true"}, 125, "a character that names cannot have"},
		{{"run", "--memroy", "1G", "true"}, 125, "did you mean --memory?"},
	};
	char requests[64];

	fixture_start();
	serve_answer("{\"ok\":true}");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_refusal(cases[i].words, cases[i].code, cases[i].says);
	read_file("requests", requests, sizeof requests);
	CHECK_STR(requests, "");
}

static void write_system_file(const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/system.conf", fixture.directory);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(invalid_settings_stop_every_verb)
{
	fixture_start();
	serve_answer("{\"ok\":true}");
	write_system_file("[run]\nmemory = 8G\nshare = much\n");
	CHECK_REFUSAL(1, "/system.conf:3: share: \"much\" is not a share", "ps");
	CHECK_REFUSAL(125, "/system.conf:3:", "run", "true");
	// this must work although the settings are invalid, because it does not read them
	CHECK_VIRGATE("--version");
}

TEST(options_override_environment_override_files)
{
	char requests[4096];

	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"limit\",\"message\":\"no\"}");
	write_system_file("[run]\nmemory = 3G\nshare = 33\n");
	CHECK_INT(VIRGATE_RUN("run", "true"), 125);
	setenv("VIRGATE_SHARE", "44", 1);
	CHECK_INT(VIRGATE_RUN("run", "true"), 125);
	CHECK_INT(VIRGATE_RUN("run", "--share=55", "--memory=1K", "true"), 125);
	unsetenv("VIRGATE_SHARE");
	read_file("requests", requests, sizeof requests);
	CHECK_STR(requests, "{\"op\":\"enter\",\"memory\":3221225472,\"share\":33,\"simulate\":\"\"}\n"
			    "{\"op\":\"enter\",\"memory\":3221225472,\"share\":44,\"simulate\":\"\"}\n"
			    "{\"op\":\"enter\",\"memory\":1024,\"share\":55,\"simulate\":\"\"}\n");
}

TEST(invalid_answers_are_reported)
{
	static const char *const answers[] = {
		"",
		"{",
		"[]",
		"{\"ok\":1}",
		"{\"ok\":true}",
		"{\"ok\":true,\"vgpus\":3}",
		"{\"ok\":true,\"vgpus\":[{}]}",
		"{\"ok\":true,\"vgpus\":[3]}",
		"{\"ok\":true,\"ok\":true,\"vgpus\":[]}",
		"{\"ok\":true,\"vgpus\":[{\"name\":\"a\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":-5}]}"};

	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		fixture_start();
		serve_answer(answers[i]);
		CHECK_INT(VIRGATE_RUN("ps"), 1);
		CHECK(strncmp(result.err, "virgate: ", 9) == 0);
		CHECK_STR(result.out, "");
	}
}
