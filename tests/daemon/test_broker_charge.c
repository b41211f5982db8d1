// Checks to which vGPU published memory is charged, and for how long.
#include "simulated.h"

enum { PUBLISHED = 64 << 20 };

// Starts `virgate WORDS…`, and waits for its first line.
static pid_t start_virgate(const char *const *words)
{
	int out[2];
	char line[256];

	CHECK_INT(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execv(VIRGATE, (char *const *)words);
		_exit(9);
	}
	close(out[1]);
	CHECK(read(out[0], line, sizeof line) > 0); // the pipe stays open for further lines
	return child;
}

static pid_t start_publisher(void)
{
	return start_virgate((const char *const[]){"virgate", "run", "--sim", "--vgpu", "a", "--", VIRGATE, "share",
						   "publish", "w", "--size", "64M", NULL});
}

static pid_t start_reader(const char *vgpu)
{
	if (!vgpu)
		return start_virgate((const char *const[]){"virgate", "share", "open", "w", "--hold", "--sim", NULL});
	return start_virgate((const char *const[]){"virgate", "run", "--sim", "--vgpu", vgpu, "--", VIRGATE, "share",
						   "open", "w", "--hold", NULL});
}

static void end_child(pid_t child, int signal)
{
	kill(child, signal);
	waitpid(child, NULL, 0);
}

static json_int_t listed_publication(const char *key, char *ret_text)
{
	json_t *reply = ask("{'op':'publications'}");
	const json_t *value = json_object_get(json_array_get(json_object_get(reply, "publications"), 0), key);
	json_int_t result = json_integer_value(value);

	if (ret_text)
		snprintf(ret_text, 64, "%s", json_is_string(value) ? json_string_value(value) : "");
	json_decref(reply);
	return result;
}

static void await_state(const char *wanted)
{
	char state[64] = "";

	for (int i = 0; i < 400 && strcmp(state, wanted) != 0; i++) {
		listed_publication("state", state);
		poll(NULL, 0, 5);
	}
	CHECK_STR(state, wanted);
}

static void check_orphaned(const char *readers_vgpu)
{
	char vgpu[64];

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	if (readers_vgpu && strcmp(readers_vgpu, "a") != 0)
		CHECK_INT(virgate("create b --sim --memory 256M"), 0);
	pid_t publisher = start_publisher();
	listed_publication("vgpu", vgpu);
	CHECK_STR(vgpu, "a");
	CHECK_INT(listed_publication("bytes", NULL), PUBLISHED);
	json_int_t alone = figure("a", "charged");
	CHECK(alone >= PUBLISHED);
	pid_t tenant = find_tenant("a");
	pid_t reader = start_reader(readers_vgpu);
	if (!readers_vgpu)
		CHECK_INT(figure("a", "charged"),
			  // A reader is charged for its own context, but not for the published memory again.
			  alone);
	end_child(tenant, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_state("orphaned");
	poll(NULL, 0, 600); // wait until the daemon has had time to reap the publisher; the memory must not be refunded
	CHECK(figure("a", "charged") >= PUBLISHED);
	if (!readers_vgpu)
		CHECK_INT(figure("a", "charged"), PUBLISHED); // the publisher's context is refunded
	end_child(reader, SIGTERM);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	if (readers_vgpu && strcmp(readers_vgpu, "a") != 0)
		CHECK(await_figure("b", "charged", 0, 3000) >= 0);
	end_daemon();
}

TEST(memory_is_charged_until_the_last_reader_ends)
{
	check_orphaned(NULL);
}

TEST(reader_in_the_same_vgpu_is_not_charged_again)
{
	check_orphaned("a");
}

TEST(reader_in_another_vgpu_is_not_charged)
{
	check_orphaned("b");
}

// Returns the line of `virgate ps` that contains the words; "": no line does.
static void ps_row(const char *words, char ret_line[256])
{
	FILE *ps = popen(VIRGATE " ps --sim", "r");

	CHECK(ps);
	do
		*ret_line = '\0';
	while (fgets(ret_line, 256, ps) && !strstr(ret_line, words));
	while (fgetc(ps) != EOF)
		;
	CHECK_INT(pclose(ps), 0);
}

// Runs a command that ends. Its slot is then free, but still has the command's name. The next user of the slot must not
// be listed under that name.
static void come_and_go(const char *command)
{
	char path[400];

	snprintf(path, sizeof path, "%s/%s", directory, command);
	CHECK_INT(symlink(VIRGATE, path), 0);
	pid_t launcher = start_virgate((const char *const[]){"virgate", "run", "--sim", "--vgpu", "a", "--", path,
							     "share", "open", "w", "--hold", NULL});
	CHECK_INT(figure("a", "tenants"), 2);
	ps_row(command, path);
	CHECK_CONTAINS(path, command);
	end_child(launcher, SIGTERM);
	CHECK(await_figure("a", "tenants", 1, 3000) >= 0);
}

TEST(ps_shows_the_guest)
{
	char words[64], row[256];

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	CHECK_INT(virgate("create b --sim --memory 256M"), 0);
	pid_t publisher = start_publisher();
	come_and_go("another");
	pid_t tenant = find_tenant("a"), reader = start_reader("b");
	CHECK_INT(figure("a", "tenants"), 2);
	ps_row("(shared", row);
	CHECK_STR(row, ""); // no such row: the memory is charged to its owner
	snprintf(words, sizeof words, "  %d virgate (guest) ", (int)find_tenant("b"));
	ps_row(words, row);
	CHECK_CONTAINS(row, words);
	CHECK_CONTAINS(row, " 0 B ");
	ps_row("a ", row);
	CHECK_CONTAINS(row, " 1\n"); // one program in vGPU a
	end_child(tenant, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_state("orphaned");
	ps_row(words, row);
	CHECK_CONTAINS(row, words); // the reason why the memory is still charged
	snprintf(words, sizeof words, "  %d virgate (ended) ", (int)tenant);
	ps_row(words, row);
	for (int i = 0; i < 100 && !strstr(row, " 64.0 MiB "); i++) { // its context is refunded a moment later
		usleep(30000);
		ps_row(words, row);
	}
	CHECK_CONTAINS(row, " 64.0 MiB "); // listed in the vGPU to which the memory is charged
	ps_row("a ", row);
	CHECK_CONTAINS(row, " 0\n"); // no programs in vGPU a
	end_child(reader, SIGTERM);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	ps_row("(guest)", row);
	CHECK_STR(row, "");
	end_daemon();
}

TEST(memory_is_refunded_after_withdraw)
{
	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t publisher = start_publisher();
	CHECK_INT(virgate("share revoke w --sim --deadline 1"), 0);
	CHECK_CHILD(publisher);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	end_daemon();
}
