// Who is charged for what is published inside a vGPU, and for how long.
#include "simulated.h"

enum { PUBLISHED = 64 << 20 };

// `virgate WORDS…`, once it has said its first line.
static pid_t start(const char *const *words)
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
	CHECK(read(out[0], line, sizeof line) > 0); // and stays open, for what it says later
	return child;
}

static pid_t start_publisher(void)
{
	return start((const char *const[]){"virgate", "run", "--sim", "--vgpu", "a", "--", VIRGATE, "share", "publish",
					   "w", "--size", "64M", NULL});
}

static pid_t start_reader(const char *vgpu)
{
	if (!vgpu)
		return start((const char *const[]){"virgate", "share", "open", "w", "--hold", "--sim", NULL});
	return start((const char *const[]){"virgate", "run", "--sim", "--vgpu", vgpu, "--", VIRGATE, "share", "open",
					   "w", "--hold", NULL});
}

// The program in the vGPU, whatever started it.
static pid_t tenant_of(const char *name)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	const json_t *tenants = json_object_get(json_object_get(reply, "vgpu"), "tenants");
	pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(tenants, 0), "pid"));

	json_decref(reply);
	CHECK(pid > 1);
	return pid;
}

static void end(pid_t child, int signal)
{
	kill(child, signal);
	waitpid(child, NULL, 0);
}

static json_int_t publication(const char *key, char *ret_text)
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
		publication("state", state);
		poll(NULL, 0, 5);
	}
	CHECK_STR(state, wanted);
}

static void orphan(const char *readers_vgpu)
{
	char vgpu[64];

	simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	if (readers_vgpu && strcmp(readers_vgpu, "a") != 0)
		CHECK_INT(virgate("create b --sim --memory 256M"), 0);
	pid_t publisher = start_publisher();
	publication("vgpu", vgpu);
	CHECK_STR(vgpu, "a");
	CHECK_INT(publication("bytes", NULL), PUBLISHED);
	json_int_t alone = figure("a", "charged");
	CHECK(alone >= PUBLISHED);
	pid_t tenant = tenant_of("a");
	pid_t reader = start_reader(readers_vgpu);
	if (!readers_vgpu)
		CHECK_INT(figure("a", "charged"), alone); // a reader costs its own context, not the memory again
	end(tenant, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_state("orphaned");
	poll(NULL, 0, 600); // the dead are looked after: not refunded
	CHECK(figure("a", "charged") >= PUBLISHED);
	if (!readers_vgpu)
		CHECK_INT(figure("a", "charged"), PUBLISHED); // its context is
	end(reader, SIGTERM);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	if (readers_vgpu && strcmp(readers_vgpu, "a") != 0)
		CHECK(await_figure("b", "charged", 0, 3000) >= 0);
	end_daemon();
}

TEST(charged_until_the_last_reader_has_gone)
{
	orphan(NULL);
}

TEST(a_reader_in_the_same_vgpu)
{
	orphan("a");
}

TEST(a_reader_in_another_vgpu)
{
	orphan("b");
}

// The line of `virgate ps` that has the words; "" without one.
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

// Leaves a slot behind whose next user must not be called what it was called.
static void come_and_go(const char *command)
{
	char path[400];

	snprintf(path, sizeof path, "%s/%s", folder, command);
	CHECK_INT(symlink(VIRGATE, path), 0);
	pid_t launcher = start((const char *const[]){"virgate", "run", "--sim", "--vgpu", "a", "--", path, "share",
						     "open", "w", "--hold", NULL});
	CHECK_INT(figure("a", "tenants"), 2);
	ps_row(command, path);
	CHECK_CONTAINS(path, command);
	end(launcher, SIGTERM);
	CHECK(await_figure("a", "tenants", 1, 3000) >= 0);
}

TEST(ps_shows_the_guest)
{
	char words[64], row[256];

	simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	CHECK_INT(virgate("create b --sim --memory 256M"), 0);
	pid_t publisher = start_publisher();
	come_and_go("another");
	pid_t tenant = tenant_of("a"), reader = start_reader("b");
	CHECK_INT(figure("a", "tenants"), 2);
	ps_row("(shared", row);
	CHECK_STR(row, ""); // the owner has the charge
	snprintf(words, sizeof words, "  %d virgate (guest) ", (int)tenant_of("b"));
	ps_row(words, row);
	CHECK_CONTAINS(row, words);
	CHECK_CONTAINS(row, " 0 B ");
	ps_row("a ", row);
	CHECK_CONTAINS(row, " 1\n"); // program in it
	end(tenant, SIGKILL);
	waitpid(publisher, NULL, 0);
	await_state("orphaned");
	ps_row(words, row);
	CHECK_CONTAINS(row, words); // it is why the memory is charged still
	snprintf(words, sizeof words, "  %d virgate (ended) ", (int)tenant);
	ps_row(words, row);
	CHECK_CONTAINS(row, " 64.0 MiB "); // whose it is
	ps_row("a ", row);
	CHECK_CONTAINS(row, " 0\n"); // programs in it
	end(reader, SIGTERM);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	ps_row("(guest)", row);
	CHECK_STR(row, "");
	end_daemon();
}

TEST(a_publisher_that_ends_in_order)
{
	simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t publisher = start_publisher();
	CHECK_INT(virgate("share revoke w --sim --deadline 1"), 0);
	int status;
	CHECK_INT(waitpid(publisher, &status, 0), publisher);
	CHECK_INT(status, 0);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	end_daemon();
}
