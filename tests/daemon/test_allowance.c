// Tests the limits of users and groups in the system's configuration file, and the queue for room with several users.
// Needs root, to run processes of these users.
#include "users_fixture.h"

static char config_path[300];

static void write_config(const char *text)
{
	snprintf(config_path, sizeof config_path, "%s/system.conf", directory);
	FILE *file = fopen(config_path, "w");
	CHECK(file);
	fputs(text, file);
	CHECK_INT(fclose(file), 0);
}

static void start_with(const char *text)
{
	if (geteuid() != 0)
		SKIP("only root can be several users");
	fresh_node();
	CHECK_INT(chmod(directory, 0755), 0);
	write_config(text);
	setenv("VIRGATE_SYSTEM_CONFIG", config_path, 1);
	launch_system_daemon();
}

// Sends a request as a user, and checks that the refusal contains the words.
static void check_refused(uid_t uid, gid_t group, const char *request, const char *words)
{
	char outcome[256];

	ask_as(uid, group, request, find_message, outcome);
	CHECK_CONTAINS(outcome, words);
}

TEST(limits_of_a_user_hold)
{
	start_with("[user 60001]\nmemory = 2G\nshare = 30\nvgpus = 2\nclass = batch\n");
	check_refused(ALICE, 0, "{'op':'create','name':'a','memory':3221225472}",
		      "vGPU a: asked for 3.0 GiB, but user 60001 may have 2.0 GiB of GPU memory (");
	check_refused(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'class':'latency'}",
		      "user 60001 may have vGPUs of the class batch only");
	check_refused(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'share':31}",
		      "asked for a share of 31 %, but user 60001 may have shares of 30 % in sum");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'share':20}", "");
	check_refused(ALICE, 0, "{'op':'create','name':'b','memory':1610612736}", "have 1.0 GiB, so 1.0 GiB is left");
	check_refused(ALICE, 0, "{'op':'set','name':'a','share':40}", "asked for a share of 40 %");
	check_refused(ALICE, 0, "{'op':'set','name':'a','memory':2684354560}", "asked for 2.5 GiB");
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','share':30}", "");
	check_refused(ALICE, 0, "{'op':'enter','memory':629145600,'share':1}", "and have 30 %, so 0 % is left");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'b','memory':629145600}", "");
	check_refused(ALICE, 0, "{'op':'create','name':'c','memory':629145600}",
		      "vGPU c: user 60001 may have 2 vGPUs (");
	check_refused(ALICE, 0, "{'op':'enter','memory':629145600}", "may have 2 vGPUs");
	// Alice's limit does not concern Bob
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':3221225472}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'rm','name':'b'}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'b','memory':629145600}", "");
}

TEST(limits_hold_after_a_restart)
{
	start_with("[user 60001]\nmemory = 2G\n[group games]\nmemory = 3G\n");
	CHECK_ANSWER(ALICE, SHARED_GROUP, "{'op':'create','name':'a','memory':2147483648}", "");
	kill(daemon_pid, SIGKILL);
	waitpid(daemon_pid, NULL, 0);
	launch_system_daemon();
	check_refused(ALICE, 0, "{'op':'create','name':'b','memory':1073741824}", "and have 2.0 GiB, so 0 B is left");
	check_refused(BOB, SHARED_GROUP, "{'op':'create','name':'b','memory':2147483648}",
		      "the members of group games together may have 3.0 GiB");
}

TEST(group_has_one_sum_for_all_members)
{
	start_with("[group games]\nmemory = 3G\nvgpus = 3\n[user 60001]\nmemory = 8G\n");
	CHECK_ANSWER(ALICE, SHARED_GROUP, "{'op':'create','name':'a','memory':2147483648}", "");
	check_refused(BOB, SHARED_GROUP, "{'op':'create','name':'b','memory':2147483648}",
		      "the members of group games together may have 3.0 GiB of GPU memory (");
	CHECK_ANSWER(BOB, SHARED_GROUP, "{'op':'create','name':'b','memory':1073741824}", "");
	// Bob is not a member of the group any more, so its limit does not apply to him.
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':1073741824}", "");
}

// As Slurm's plugin does, root creates a vGPU and names another user as its owner. The vGPU must count against the
// limits of that user's groups.
TEST(vgpu_that_root_creates_for_a_member_counts_for_the_group)
{
	start_with("[group games]\nmemory = 3G\nclass = batch\n");
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1073741824,'owner':'5'}"));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':1073741824,'owner':'games'}"));
	check_refused(0, 0, "{'op':'create','name':'c','memory':2147483648,'owner':'5'}",
		      "the members of group games together may have 3.0 GiB of GPU memory (");
	check_refused(0, 0, "{'op':'create','name':'c','memory':1073741824,'owner':'games','class':'latency'}",
		      "the members of group games together may have vGPUs of the class batch only");
	check_refused(ALICE, SHARED_GROUP, "{'op':'create','name':'c','memory':2147483648}",
		      "have 2.0 GiB, so 1.0 GiB");
	// User 60001 is not in the user database, so the daemon knows no groups of that user. A vGPU that root owns
	// counts against no group's limit.
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':2147483648,'owner':'60001'}"));
	CHECK_AGREED(ask("{'op':'create','name':'d','memory':2147483648}"));
}

TEST(every_user_has_the_common_limit)
{
	start_with("[user *]\nmemory = 1G\n[user 60002]\nmemory = 2G\n");
	CHECK_ANSWER(60003, 0, "{'op':'create','name':'c','memory':1073741824}", "");
	// The limit of [user *] applies to each user alone, so the vGPU of user 60003 does not count against Alice's.
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824}", "");
	check_refused(ALICE, 0, "{'op':'create','name':'b','memory':629145600}", "user 60001 may have 1.0 GiB");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':2147483648}", "");
	CHECK_AGREED(
		ask("{'op':'create','name':'r','memory':3221225472}")); // the limit of [user *] does not apply to root
}

TEST(changed_file_is_read_again)
{
	start_with("");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824}", "");
	write_config("[user 60001]\nvgpus = 1\n");
	check_refused(ALICE, 0, "{'op':'create','name':'b','memory':1073741824}", "user 60001 may have 1 vGPUs");
	write_config("[user 60001]\nvgpus = many\n");
	check_refused(ALICE, 0, "{'op':'create','name':'b','memory':1073741824}",
		      "the limits of users cannot be read, so only root may have vGPUs: ");
	CHECK_AGREED(ask("{'op':'create','name':'r','memory':1073741824}"));
	CHECK_INT(unlink(config_path), 0);
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'b','memory':1073741824}", "");
}

// ---- the queue -------------------------------------------------------------------------------------------

// Sends a request as a user in the background. Writes `mark` into the pipe when the daemon has agreed, or 'x'.
static pid_t ask_in_background(uid_t uid, const char *request, int output, char mark)
{
	char outcome[256];
	pid_t child = fork();

	CHECK(child >= 0);
	if (child)
		return child;
	ask_as(uid, 0, request, find_code, outcome);
	if (*outcome)
		mark = 'x';
	_exit(write(output, &mark, 1) != 1);
}

static int count_waiting(void)
{
	json_t *reply = ask("{'op':'devices'}");
	json_t *device = json_array_get(json_object_get(reply, "devices"), 0);
	int count = (int)json_integer_value(json_object_get(device, "waiting"));

	json_decref(reply);
	return count;
}

static void wait_until_waiting(int wanted)
{
	for (int i = 0; i < 3000 && count_waiting() != wanted; i++)
		usleep(10000);
	CHECK_INT(count_waiting(), wanted);
}

TEST(users_wait_in_one_queue)
{
	pid_t children[3];
	int order[2];
	char text[4] = "";

	start_with("");
	CHECK_INT(pipe(order), 0);
	// this vGPU takes all memory of the GPU
	json_t *reply = ask("{'op':'create','name':'full','share':100,'device':'0'}");
	CHECK_AGREED(reply);
	children[0] = ask_in_background(ALICE, "{'op':'enter','share':100,'device':'0','wait':true}", order[1], 'a');
	wait_until_waiting(1);
	children[1] = ask_in_background(BOB, "{'op':'enter','share':90,'device':'0','wait':600}", order[1], 'b');
	wait_until_waiting(2);
	children[2] = ask_in_background(ALICE, "{'op':'enter','share':100,'device':'0','wait':true}", order[1], 'c');
	wait_until_waiting(3);
	CHECK_AGREED(ask("{'op':'rm','name':'full'}"));
	for (size_t i = 0; i < 3; i++)
		CHECK_INT(read(order[0], text + i, 1), 1);
	CHECK_STR(text, "abc");
	for (size_t i = 0; i < 3; i++)
		waitpid(children[i], NULL, 0);
	CHECK_INT(count_waiting(), 0);
}

TEST(request_that_a_limit_holds_blocks_no_other)
{
	int order[2];
	char mark = 0;

	start_with("[user 60001]\nvgpus = 1\n");
	CHECK_INT(pipe(order), 0);
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'device':'0'}", "");
	pid_t held =
		ask_in_background(ALICE, "{'op':'enter','memory':1073741824,'device':'0','wait':true}", order[1], 'a');
	CHECK_ANSWER(BOB, 0, "{'op':'enter','memory':1073741824,'device':'0','wait':true}", "");
	CHECK_INT(waitpid(held, NULL, WNOHANG), 0);
	CHECK_ANSWER(ALICE, 0, "{'op':'rm','name':'a'}", "");
	CHECK_INT(read(order[0], &mark, 1), 1);
	CHECK_INT(mark, 'a');
	waitpid(held, NULL, 0);
	write_config("[user 60001]\nmemory = 1G\n");
	check_refused(ALICE, 0, "{'op':'enter','memory':2147483648,'wait':true}", // more than ever
		      "user 60001 may have 1.0 GiB");
}

TEST(only_root_drains)
{
	start_with("");
	CHECK_ANSWER(ALICE, 0, "{'op':'drain','device':'0'}", "denied");
	CHECK_ANSWER(0, 0, "{'op':'drain','device':'0'}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'drain','device':'0','undo':true}", "denied");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'device':'0'}", "busy");
	CHECK_ANSWER(0, 0, "{'op':'drain','device':'0','undo':true}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1073741824,'device':'0'}", "");
}
