// Programs of vGPUs are written down and brought back: with the quota they had, and a ledger that is exact at every
// moment. What needs a real CRIU says so; the rest has the stand-in.
#include "checkpoint/image.h"
#include "checkpoint/image_text.h"
#include "checkpoint_test.h"
#include "ledger/share.h"
#include "tenant_report.h"

enum { OUT_OF_MEMORY = 2 };
static const uint64_t MIB = 1 << 20;

static void prepare(bool real)
{
	setenv("VIRGATE_RUNTIME_DIR", path_of("run"), 1);
	setenv("VIRGATE_STATE_DIR", path_of("state"), 1);
	unlink(path_of("fail"));
	unlink(path_of("said"));
	static char given[PATH_MAX];
	static bool looked;
	if (!looked && getenv("VIRGATE_CRIU"))
		snprintf(given, sizeof given, "%s", getenv("VIRGATE_CRIU"));
	looked = true;
	if (!real)
		setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	else if (*given)
		setenv("VIRGATE_CRIU", given, 1);
	else
		unsetenv("VIRGATE_CRIU");
	if (real)
		need_criu();
}

// ---- a program in a vGPU -----------------------------------------------------------------------------

struct program {
	pid_t run; // virgate run
	pid_t pid;
	char file[PATH_MAX];
};

// A restored one leads no group, and is a child of ours, or of init.
static void await_end(pid_t pid)
{
	for (int i = 0; i < 3000; i++) {
		waitpid(pid, NULL, WNOHANG);
		if (kill(pid, 0) != 0)
			return;
		usleep(10000);
	}
	FAIL("process %d does not end", (int)pid);
}

static struct tenant_report report_of(const struct program *program)
{
	struct tenant_report report = {0};
	_cleanup_close_ int fd = open(program->file, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && pread(fd, &report, sizeof report, 0) != sizeof report)
		report = (struct tenant_report){0};
	return report;
}

static void await_round(const struct program *program, unsigned round)
{
	uint64_t end = vg_clock_monotonic_ns() + UINT64_C(30000000000);

	while (report_of(program).round < round) {
		if (vg_clock_monotonic_ns() > end)
			FAIL("%s: round %u does not come", program->file, round);
		usleep(5000);
	}
}

static void check_looks_on(const struct program *program)
{
	await_round(program, report_of(program).round + 2);
}

// `how`: what virgate run is told of the vGPU; NULL behind the last.
static struct program start_so(const char *const *how, const char *name, const char *hold, const char *small,
			       const char *big)
{
	struct program program;
	char log[PATH_MAX + 8];
	const char *argv[24] = {VIRGATE, "run"};
	size_t count = 2;

	while (*how)
		argv[count++] = *how++;
	const char *const rest[] = {"--", TENANT, program.file, hold, small, big};
	memcpy(argv + count, rest, sizeof rest);
	snprintf(program.file, sizeof program.file, "%s", path_of(name));
	unlink(program.file);
	snprintf(log, sizeof log, "%s.log", program.file);
	fflush(stdout);
	program.run = fork();
	if (program.run == 0) {
		setsid();
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execv(VIRGATE, (char *const *)argv);
		_exit(127);
	}
	await_round(&program, 1);
	program.pid = report_of(&program).pid;
	return program;
}

static struct program start(const char *vgpu, const char *name, const char *hold, const char *small, const char *big)
{
	return start_so((const char *const[]){"--vgpu", vgpu, NULL}, name, hold, small, big);
}

// In a vGPU that is made for the program alone, with 256 MiB, at most 30 % of the time, and the latency class.
static struct program start_once(const char *vgpu, const char *name)
{
	return start_so((const char *const[]){"--name", vgpu, "--memory", "256M", "--share", "30", "--limit", "--class",
					      "latency", NULL},
			name, "64", "32", "512");
}

// It asks for more, and gets the small and not the big.
static void check_quota(const struct program *program)
{
	unsigned before = report_of(program).asked;

	CHECK_INT(kill(program->pid, SIGUSR1), 0);
	for (int i = 0; i < 6000 && report_of(program).asked == before; i++)
		usleep(10000);
	CHECK_INT(report_of(program).asked, before + 1);
	CHECK_INT(report_of(program).small, 0);
	CHECK_INT(report_of(program).big, OUT_OF_MEMORY);
}

static int await_run(const struct program *program)
{
	int status;

	CHECK_INT(waitpid(program->run, &status, 0), program->run);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void end(const struct program *program)
{
	kill(program->pid, SIGKILL);
	await_end(program->pid);
	waitpid(program->run, NULL, 0);
}

// ---- its vGPU's books --------------------------------------------------------------------------------

static uint64_t charged_now(const char *vgpu)
{
	struct vg_ledger_tenant tenant;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;
	char path[PATH_MAX];
	uint64_t sum = 0;

	snprintf(path, sizeof path, "%s/run/ledgers/%s", folder, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		sum += tenant.used;
	uint64_t charged = vg_ledger_charged(ledger);
	vg_ledger_close(ledger);
	CHECK_INT(sum, charged);
	return charged;
}

// Who is dead is refunded within moments.
static void check_charged(const char *vgpu, uint64_t expected)
{
	for (int i = 0; i < 500 && charged_now(vgpu) != expected; i++)
		usleep(10000);
	CHECK_INT(charged_now(vgpu), expected);
}

static struct vg_ledger_tenant place_of(const char *vgpu, pid_t pid)
{
	struct vg_ledger_tenant tenant;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", folder, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (tenant.owner.pid == (uint32_t)pid) {
			vg_ledger_close(ledger);
			return tenant;
		}
	FAIL("process %d has no place in %s", (int)pid, vgpu);
}

static bool ps_shows(const char *vgpu, pid_t pid)
{
	char wanted[64];

	CHECK_INT(run("inspect %s --json", vgpu), 0);
	snprintf(wanted, sizeof wanted, "\"pid\": %d,", (int)pid);
	return strstr(said, wanted) != NULL;
}

static void create_vgpu(const char *name, const char *memory)
{
	if (run("create %s --memory %s", name, memory))
		FAIL("create %s: %s", name, said);
}

static int coordinate(const char *verb, pid_t pid, const char *dir, const char *phase, const char *what)
{
	char command[PATH_MAX + 256];

	snprintf(command, sizeof command, "VIRGATE_LIBDIR=%s exec %s %s %d %s %s %s 2>&1", BUILD, COORDINATOR, verb,
		 (int)pid, dir, phase, what);
	FILE *output = popen(command, "re");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	int status = pclose(output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// ---- the way out, with the stand-in ------------------------------------------------------------------

TEST(virgate_run_says_what_became_of_its_program)
{
	prepare(false);
	create_vgpu("told", "256M");
	struct program program = start("told", "told", "64", "32", "512");
	uint64_t charged = charged_now("told");

	CHECK(charged >= 64 * MIB);
	CHECK_INT(run("dump --pid %d --dir %s", (int)program.pid, path_of("told.image")), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("told", 0);
	// Its log is the program's own, and stays as it was; somebody who reads along is told.
	struct stat info;
	CHECK_INT(stat(path_of("told.log"), &info), 0);
	CHECK_INT(info.st_size, 0);
	char vgpu[32] = "\"vgpu\": \"told\"", *text = malloc(1 << 20);
	CHECK(vg_file_read(path_of("told.image/virgate.json"), text, 1 << 20) > 0);
	CHECK_CONTAINS(text, vgpu);
	free(text);
	// One that is killed by anybody else is not.
	program = start("told", "told2", "64", "32", "512");
	kill(program.pid, SIGKILL);
	CHECK_INT(await_run(&program), 128 + SIGKILL);
}

TEST(who_runs_on_keeps_its_place)
{
	prepare(false);
	create_vgpu("kept", "512M");
	struct program program = start("kept", "kept", "64", "32", "512");
	struct vg_ledger_tenant before = place_of("kept", program.pid);

	check_quota(&program);
	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "kept%d.image", i);
		CHECK_INT(run("dump --vgpu kept --dir %s --leave-running", path_of(name)), 0);
		check_looks_on(&program);
		check_quota(&program);
		struct vg_ledger_tenant now = place_of("kept", program.pid);
		CHECK_INT(now.slot, before.slot);
		CHECK_INT(now.used, before.used);
		check_charged("kept", before.used);
	}
	end(&program);
	check_charged("kept", 0);
}

// However the dump fails, whoever it is that takes it back, the place is the one it was.
TEST(who_is_brought_back_has_its_place)
{
	static const char *const phases[] = {"lock", "device-out", "host-out", "commit"};

	prepare(false);
	create_vgpu("back", "512M");
	struct program program = start("back", "back", "64", "32", "512");
	struct vg_ledger_tenant before = place_of("back", program.pid);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("dump", program.pid, path_of("stopped.image"), phases[i], "stop"), 1);
		check_quota(&program);
		CHECK_INT(coordinate("dump", program.pid, path_of("killed.image"), phases[i], "kill"), -SIGKILL);
		CHECK_INT(place_of("back", program.pid).used, before.used);
		if (run("recover --pid %d", (int)program.pid))
			FAIL("recover from %s: %s", phases[i], said);
		check_quota(&program);
		CHECK_INT(place_of("back", program.pid).slot, before.slot);
		check_charged("back", before.used);
	}
	write_text("fail", "dump\n");
	CHECK_INT(run("dump --vgpu back --dir %s", path_of("failed.image")), 1);
	CHECK_CONTAINS(said, "run on as before");
	unlink(path_of("fail"));
	check_quota(&program);
	check_charged("back", before.used);
	end(&program);
}

TEST(who_allocates_all_the_time_is_stopped_between_two)
{
	prepare(false);
	create_vgpu("busy", "512M");
	struct program program = start("busy", "busy", "64", "32", "512");
	uint64_t charged = charged_now("busy");

	CHECK_INT(kill(program.pid, SIGUSR2), 0);
	check_looks_on(&program);
	for (int i = 0; i < 5; i++) {
		char name[32];
		snprintf(name, sizeof name, "busy%d.image", i);
		if (run("dump --vgpu busy --dir %s --leave-running", path_of(name)))
			FAIL("dump %d: %s", i, said);
		check_looks_on(&program);
	}
	end(&program);
	check_charged("busy", 0);
	CHECK(charged >= 64 * MIB);
}

TEST(vgpus_that_nobody_runs_in_are_refused)
{
	prepare(false);
	CHECK_INT(run("dump --vgpu nosuch --dir %s", path_of("x")), 1);
	CHECK_CONTAINS(said, "nosuch");
	create_vgpu("empty", "256M");
	CHECK_INT(run("dump --vgpu empty --dir %s", path_of("x")), 1);
	CHECK_CONTAINS(said, "nobody runs inside vGPU empty");
	CHECK_INT(run("dump --vgpu empty --pid 1 --dir %s", path_of("x")), 2);
	CHECK(access(path_of("x"), F_OK) < 0);
}

static struct vg_ledger *ledger_of(const char *vgpu)
{
	struct vg_ledger *ledger;
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", folder, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	return ledger;
}

// As the daemon has it when a tenant opens what a program of another vGPU has exported, and as tenants of one vGPU have
// it.
TEST(memory_in_common_with_others_is_refused)
{
	prepare(false);
	create_vgpu("guest", "256M");
	create_vgpu("giver", "256M");
	struct program program = start("guest", "guest", "64", "32", "512");
	struct vg_ledger_tenant place = place_of("guest", program.pid);
	struct vg_ledger *giver = ledger_of("giver");
	uint64_t bytes, key = vg_ledger_key('t', "memory", 6);
	uint32_t share, joined;
	CHECK_INT(vg_ledger_enter(giver), 0);
	CHECK_INT(vg_ledger_reserve(giver, VG_LEDGER_VMM, 2 * MIB), 0);
	CHECK_INT(vg_ledger_share_make(giver, 2 * MIB, &share), 0);
	CHECK_INT(vg_ledger_share_name(giver, share, key, false), 0);
	CHECK_INT(vg_ledger_guest_join(giver, &place.owner, place.program, key, &joined, &bytes), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(run("dump --vgpu guest --dir %s", path_of("x")), 1);
		CHECK_CONTAINS(said, "refused (shared-memory)");
		CHECK_CONTAINS(said, "vGPU giver");
	}
	check_looks_on(&program);
	CHECK_INT(vg_ledger_guest_leave(giver, &place.owner, joined), 0);
	vg_ledger_leave(giver);
	vg_ledger_close(giver);
	CHECK_INT(run("dump --vgpu guest --dir %s --leave-running", path_of("guest.image")), 0);
	end(&program);
	CHECK(access(path_of("x"), F_OK) < 0);
}

// ---- what is refused before anything is made ---------------------------------------------------------

static bool criu_was_asked_to_restore(void)
{
	char text[4096];

	return vg_file_read(path_of("said"), text, sizeof text) > 0 && strstr(text, "restore");
}

TEST(a_vgpu_without_room_is_refused_with_figures)
{
	prepare(false);
	create_vgpu("full", "256M");
	struct program program = start("full", "full", "128", "8", "512");
	CHECK_INT(run("dump --vgpu full --dir %s", path_of("full.image")), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("full", 0);
	struct program other = start("full", "other", "128", "8", "512");
	uint64_t charged = charged_now("full");
	CHECK_INT(run("restore --detach --dir %s", path_of("full.image")), 125);
	CHECK_CONTAINS(said, "vGPU full has ");
	CHECK_CONTAINS(said, " of 256.0 MiB left, and the image takes 144.0 MiB");
	CHECK_CONTAINS(said, "virgate set --sim full --memory 288M");
	CHECK(!criu_was_asked_to_restore());
	CHECK_INT(charged_now("full"), charged);
	check_quota(&other);
	// With what it says, the next step is CRIU's, and its failure gives all back.
	CHECK_INT(run("set full --memory 288M"), 0);
	write_text("fail", "restore\n");
	CHECK_INT(run("restore --detach --dir %s", path_of("full.image")), 125);
	CHECK(criu_was_asked_to_restore());
	check_charged("full", charged);
	end(&other);
	check_charged("full", 0);
}

// Its user truncates it while CRIU is at work: whoever restores has written in it, and gives back what it took.
TEST(a_ledger_that_is_truncated_meanwhile_ends_no_restore)
{
	char script[3 * PATH_MAX];

	prepare(false);
	create_vgpu("short", "256M");
	struct program program = start("short", "short", "128", "8", "512");
	CHECK_INT(run("dump --vgpu short --dir %s", path_of("short.image")), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("short", 0);
	snprintf(script, sizeof script, "#!/bin/sh\n[ $1 = restore ] && truncate -s 0 '%s/run/ledgers/short'\nexec '%s' \"$@\"\n",
		 folder, STANDIN_PROGRAM);
	write_text("criu-truncate", script);
	CHECK_INT(chmod(path_of("criu-truncate"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu-truncate"), 1);
	write_text("fail", "restore\n");
	if (run("restore --detach --dir %s", path_of("short.image")) != 125)
		FAIL("%s", said);
	CHECK_CONTAINS(said, "told to fail");
	CHECK_INT(run("rm --force short"), 0);
}

TEST(a_vgpu_that_is_gone_is_asked_for)
{
	prepare(false);
	CHECK_INT(run("create gone --memory 256M --share 20 --limit --class latency"), 0);
	struct program program = start("gone", "gone", "64", "32", "512");
	CHECK_INT(run("dump --vgpu gone --dir %s", path_of("gone.image")), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("gone", 0);
	CHECK_INT(run("rm gone"), 0);
	CHECK_INT(run("restore --detach --dir %s", path_of("gone.image")), 125);
	char *line = strstr(said, "virgate create --sim gone --memory 256M --share 20 --limit --class latency "
				  "--device GPU-");
	if (!line)
		FAIL("no word of how to make it: %s", said);
	CHECK(!criu_was_asked_to_restore());
	line[strcspn(line, "\n")] = '\0';
	char words[512];
	snprintf(words, sizeof words, "%s", line + strlen("virgate "));
	if (run("%s", words))
		FAIL("%s: %s", words, said);
	write_text("fail", "restore\n");
	CHECK_INT(run("restore --detach --dir %s", path_of("gone.image")), 125);
	CHECK(criu_was_asked_to_restore());
}

// ---- a vGPU that was made for one run ------------------------------------------------------------------

static bool vgpu_exists(const char *name)
{
	return run("inspect %s", name) == 0;
}

static void await_no_vgpu(const char *name)
{
	for (int i = 0; i < 500 && vgpu_exists(name); i++)
		usleep(10000);
	if (vgpu_exists(name))
		FAIL("vGPU %s is still there: %s", name, said);
}

// Returns the program, which is gone, with its image at NAME.image.
static struct program write_down_once(const char *name)
{
	struct program program = start_once(name, name);
	char image[64];

	snprintf(image, sizeof image, "%s.image", name);
	if (run("dump --pid %d --dir %s", (int)program.pid, path_of(image)))
		FAIL("dump: %s", said);
	CHECK_INT(await_run(&program), 75);
	await_no_vgpu(name);
	return program;
}

// What it said since is in a file that it has open, which must be as it was.
static void empty_log(const struct program *program)
{
	char log[PATH_MAX + 8];

	snprintf(log, sizeof log, "%s.log", program->file);
	CHECK_INT(truncate(log, 0), 0);
}

// With another `value` (NULL: without it) for a key of its one vGPU.
static void edit_image(const char *image, const char *key, json_t *value)
{
	char path[PATH_MAX];
	struct image_dir dir;
	json_t *description;

	snprintf(path, sizeof path, "%s", path_of(image));
	CHECK_INT(image_open(path, __func__, &dir), VG_OK);
	CHECK_INT(image_read(&dir, __func__, &description), VG_OK);
	image_close(&dir);
	json_t *vgpu = json_array_get(json_object_get(description, "vgpus"), 0);
	CHECK(value || json_object_get(vgpu, key));
	CHECK_INT(value ? json_object_set_new(vgpu, key, value) : json_object_del(vgpu, key), 0);
	json_object_del(description, "xxh3");
	char *text = image_text_seal(description);
	CHECK(text != NULL);
	strcat(path, "/virgate.json");
	CHECK_INT(vg_file_write_atomic(path, text, strlen(text), 0600), 0);
	free(text);
	json_decref(description);
}

TEST(a_vgpu_of_one_run_is_made_again_and_goes_with_a_failure)
{
	prepare(false);
	write_down_once("brief");
	write_text("fail", "restore\n");
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK(criu_was_asked_to_restore());
	CHECK(!vgpu_exists("brief"));
	// The library's caller lives on, and has it no more either.
	CHECK_INT(coordinate("restore", 0, path_of("brief.image"), "host-in", "stop"), 1);
	CHECK(!vgpu_exists("brief"));
	// Images of earlier versions do not say whose it was.
	edit_image("brief.image", "owner", NULL);
	edit_image("brief.image", "group", NULL);
	edit_image("brief.image", "share_limit", NULL);
	edit_image("brief.image", "class", NULL);
	unlink(path_of("said"));
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK(criu_was_asked_to_restore());
	// As root for somebody else: only the system's daemon has vGPUs of several users.
	edit_image("brief.image", "group", json_integer(4294967294));
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK_CONTAINS(said, "group 4294967294, which does not exist here");
}

TEST(a_vgpu_of_one_run_is_made_for_whom_it_was)
{
	prepare(false);
	if (geteuid() != 0)
		SKIP("only root restores for others");
	write_down_once("whose");
	edit_image("whose.image", "owner", json_integer(60001));
	CHECK_INT(run("restore --detach --dir %s", path_of("whose.image")), 125);
	CHECK_CONTAINS(said, "a vGPU for user 60001 needs the system's daemon");
}

TEST(a_vgpu_of_one_run_must_fit)
{
	char left[32];

	prepare(false);
	write_down_once("large");
	CHECK_INT(run("devices --json"), 0);
	const char *memory = strstr(said, "\"memory\": "), *reserved = strstr(said, "\"reserved\": ");
	CHECK(memory && reserved);
	snprintf(left, sizeof left, "%lldM", ((atoll(memory + 10) - atoll(reserved + 12)) >> 20) - 128);
	create_vgpu("hog", left);
	CHECK_INT(run("restore --detach --dir %s", path_of("large.image")), 125);
	CHECK_CONTAINS(said, "vGPU large, which went with its run, cannot be made again: GPU 0: asked for 256.0 MiB");
	CHECK(!criu_was_asked_to_restore());
	CHECK_INT(run("rm hog"), 0);
}

TEST(another_vgpu_of_that_name_is_not_taken_for_it)
{
	char path[PATH_MAX];

	prepare(false);
	write_down_once("taken");
	create_vgpu("taken", "256M");
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "the vGPU taken that exists now is not the one that the processes ran inside");
	CHECK_CONTAINS(said, "--vgpu");
	CHECK_INT(run("rm taken"), 0);
	struct program other = start_so((const char *const[]){"--name", "taken", "--memory", "300M", NULL},
					"other-taken", "64", "8", "512");
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "it has 300.0 MiB, and theirs was of one run, with 256.0 MiB");
	end(&other);
	await_no_vgpu("taken");
	other = start_so((const char *const[]){"--name", "taken", "--memory", "256M", "--share", "30", "--limit", NULL},
			 "other-taken", "64", "8", "512"); // another class
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "the vGPU taken that exists now is not the one that the processes ran inside");
	end(&other);
	await_no_vgpu("taken");
	if (geteuid() != 0)
		return; // only root has pages of others
	other = start_once("taken", "other-taken");
	snprintf(path, sizeof path, "%s/taken", path_of("run/ledgers"));
	CHECK_INT(chown(path, 60001, (gid_t)-1), 0);
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "belongs to user 60001, and the one that the processes ran inside belonged to user 0");
	CHECK(!criu_was_asked_to_restore());
	CHECK_INT(chown(path, 0, (gid_t)-1), 0);
	end(&other);
}

TEST(the_vgpus_that_are_chosen_must_make_sense)
{
	prepare(false);
	write_down_once("odd");
	static const struct {
		const char *options, *says;
	} all[] = {
		{"--vgpu nosuch", "nosuch"},
		{"--vgpu no=odd", "the image is not of a vGPU no, but of odd"},
		{"--vgpu odd=a --vgpu odd=b", "vGPU a and vGPU b are both named to replace odd"},
		{"--vgpu a --vgpu b", "name a replacement for each"},
		{"--vgpu odd=", "--vgpu: \"odd=\" is neither NAME nor OLD=NEW"},
		{"--vgpu a/b", "a/b"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		CHECK_INT(run("restore --detach %s --dir %s", all[i].options, path_of("odd.image")), 125);
		CHECK_CONTAINS(said, all[i].says);
	}
	CHECK(!criu_was_asked_to_restore());
	CHECK(!vgpu_exists("odd"));
}

TEST(a_program_of_one_run_comes_back_with_its_quota)
{
	prepare(true);
	struct program program = write_down_once("once");

	for (int i = 0; i < 2; i++) {
		unsigned round = report_of(&program).round;
		if (run("restore --detach --dir %s", path_of("once.image")))
			FAIL("restore: %s", said);
		await_round(&program, round + 2);
		CHECK_INT(run("inspect once --json"), 0);
		CHECK_CONTAINS(said, "\"ephemeral\": true");
		CHECK_CONTAINS(said, "\"memory\": 268435456");
		CHECK_CONTAINS(said, "\"share\": 30");
		CHECK_CONTAINS(said, "\"share_limit\": true");
		CHECK_CONTAINS(said, "\"class\": \"latency\"");
		check_charged("once", place_of("once", program.pid).used);
		CHECK(charged_now("once") >= 64 * MIB);
		check_quota(&program);
		// It goes with the program, as before.
		end(&program);
		await_no_vgpu("once");
		empty_log(&program);
	}
}

TEST(a_restore_that_fails_late_leaves_no_vgpu)
{
	static const char *const phases[] = {"host-in", "device-in", "unlock"};

	prepare(true);
	struct program program = write_down_once("undone");
	setenv("VIRGATE_SIM_FAULT", "cuCheckpointProcessRestore:1=CUDA_ERROR_UNKNOWN", 1);
	CHECK_INT(run("restore --detach --dir %s", path_of("undone.image")), 125);
	unsetenv("VIRGATE_SIM_FAULT");
	CHECK_CONTAINS(said, "the processes were ended");
	await_end(program.pid);
	CHECK(!vgpu_exists("undone"));
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("restore", 0, path_of("undone.image"), phases[i], "kill"), -SIGKILL);
		kill(program.pid, SIGKILL); // it may have come as far as that
		await_end(program.pid);
		await_no_vgpu("undone");
	}
}

TEST(a_program_goes_into_another_vgpu)
{
	prepare(true);
	struct program program = write_down_once("from");
	create_vgpu("into-another-one", "400M");
	unsigned round = report_of(&program).round;
	if (run("restore --detach --vgpu into-another-one --dir %s", path_of("from.image")))
		FAIL("restore: %s", said);
	await_round(&program, round + 2);
	CHECK(!vgpu_exists("from"));
	CHECK(ps_shows("into-another-one", program.pid));
	uint64_t used = place_of("into-another-one", program.pid).used;
	check_charged("into-another-one", used);
	CHECK(used >= 64 * MIB);
	check_quota(&program);
	// From there it is written down as one of that vGPU.
	CHECK_INT(run("dump --vgpu into-another-one --dir %s", path_of("into.image")), 0);
	await_end(program.pid);
	check_charged("into-another-one", 0);
	round = report_of(&program).round;
	if (run("restore --detach --dir %s", path_of("into.image")))
		FAIL("restore: %s", said);
	await_round(&program, round + 2);
	check_charged("into-another-one", used);
	end(&program);
	check_charged("into-another-one", 0);
	// Where it does not fit, nothing comes of it.
	empty_log(&program);
	CHECK_INT(run("set into-another-one --memory 32M"), 0);
	CHECK_INT(run("restore --detach --vgpu into-another-one --dir %s", path_of("from.image")), 125);
	CHECK_CONTAINS(said, "vGPU into-another-one has ");
	CHECK_INT(run("rm into-another-one"), 0);
}

// The shell's two children are in a vGPU each.
static pid_t start_two(struct program programs[2])
{
	static const char script[] =
		"for i in a b; do (eval \"$(%s run --vgpu two-$i -- sh -c 'export -p')\"; exec %s %s/two-$i 64 32 "
		"512) & done; wait";
	char command[4 * PATH_MAX];

	snprintf(command, sizeof command, script, VIRGATE, TENANT, folder);
	for (int i = 0; i < 2; i++) {
		snprintf(programs[i].file, sizeof programs[i].file, "%s", path_of(i ? "two-b" : "two-a"));
		unlink(programs[i].file);
	}
	fflush(stdout);
	pid_t shell = fork();
	if (shell == 0) {
		setsid();
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(0, 1);
		dup2(0, 2);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 2; i++) {
		await_round(&programs[i], 1);
		programs[i].pid = report_of(&programs[i]).pid;
	}
	return shell;
}

TEST(an_image_of_several_vgpus)
{
	struct program programs[2];

	prepare(true);
	create_vgpu("two-a", "256M");
	create_vgpu("two-b", "300M");
	pid_t shell = start_two(programs);
	uint64_t charged = charged_now("two-a");
	if (run("dump --pid %d --dir %s", (int)shell, path_of("two.image")))
		FAIL("dump: %s", said);
	waitpid(shell, NULL, 0);
	for (int i = 0; i < 2; i++)
		await_end(programs[i].pid);
	check_charged("two-a", 0);
	check_charged("two-b", 0);
	CHECK_INT(run("rm two-a two-b"), 0);
	create_vgpu("two-c", "256M");
	CHECK_INT(run("restore --detach --vgpu two-c --dir %s", path_of("two.image")), 125);
	CHECK_CONTAINS(said, "the image has 2 vGPUs");
	CHECK_INT(run("restore --detach --vgpu two-a=two-c --dir %s", path_of("two.image")), 125);
	CHECK_CONTAINS(said, "vGPU two-b, which does not exist now");
	create_vgpu("two-b", "256M");
	unsigned rounds[2] = {report_of(&programs[0]).round, report_of(&programs[1]).round};
	if (run("restore --detach --vgpu two-a=two-c --dir %s", path_of("two.image")))
		FAIL("restore: %s", said);
	for (int i = 0; i < 2; i++)
		await_round(&programs[i], rounds[i] + 2);
	check_charged("two-c", charged);
	check_charged("two-b", charged);
	check_quota(&programs[0]);
	check_quota(&programs[1]);
	for (int i = 0; i < 2; i++) {
		kill(programs[i].pid, SIGKILL);
		await_end(programs[i].pid);
	}
	await_end(shell);
	check_charged("two-c", 0);
	// Both into one.
	CHECK_INT(run("set two-c --memory 400M"), 0);
	if (run("restore --detach --vgpu two-a=two-c --vgpu two-b=two-c --dir %s", path_of("two.image")))
		FAIL("restore: %s", said);
	check_charged("two-c", 2 * charged);
	for (int i = 0; i < 2; i++) {
		kill(programs[i].pid, SIGKILL);
		await_end(programs[i].pid);
	}
	await_end(shell);
	check_charged("two-c", 0);
}

// ---- the whole life ----------------------------------------------------------------------------------

TEST(a_tenant_comes_back_with_its_quota)
{
	prepare(true);
	create_vgpu("life", "512M");
	struct program program = start("life", "life", "128", "32", "512");
	struct vg_ledger_tenant before = place_of("life", program.pid);

	check_quota(&program);
	for (int i = 0; i < 2; i++) {
		char name[32];
		snprintf(name, sizeof name, "life%d.image", i);
		CHECK_INT(run("dump --vgpu life --dir %s", path_of(name)), 0);
		if (i == 0)
			CHECK_INT(await_run(&program), 75);
		await_end(program.pid);
		check_charged("life", 0);
		// Somebody is where it was.
		struct program other = start("life", "other-life", "16", "8", "512");
		uint64_t others = charged_now("life");
		unsigned round = report_of(&program).round;
		if (run("restore --detach --dir %s", path_of(name)))
			FAIL("restore: %s", said);
		await_round(&program, round + 2);
		struct vg_ledger_tenant now = place_of("life", program.pid);
		CHECK_INT(now.used, before.used);
		CHECK(memcmp(now.by_kind, before.by_kind, sizeof now.by_kind) == 0);
		CHECK_STR(now.command, before.command);
		check_charged("life", others + before.used);
		CHECK(ps_shows("life", program.pid));
		check_quota(&program);
		check_quota(&other);
		end(&other);
		check_charged("life", before.used);
	}
	// And it is refunded like anybody else.
	kill(program.pid, SIGKILL);
	check_charged("life", 0);
	CHECK(!ps_shows("life", program.pid));
	await_end(program.pid);
}

TEST(all_of_a_vgpu_come_back)
{
	prepare(true);
	create_vgpu("all", "512M");
	struct program left = start("all", "left", "64", "16", "512"),
		       right = start("all", "right", "128", "16", "512");
	uint64_t charged = charged_now("all");

	CHECK_INT(run("dump --vgpu all --dir %s --json", path_of("all.image")), 0);
	CHECK_CONTAINS(said, "\"processes\": 2");
	CHECK_INT(await_run(&left), 75);
	CHECK_INT(await_run(&right), 75);
	check_charged("all", 0);
	unsigned rounds[2] = {report_of(&left).round, report_of(&right).round};
	// One whose pid is taken keeps all away.
	if (run("restore --detach --dir %s", path_of("all.image")))
		FAIL("restore: %s", said);
	await_round(&left, rounds[0] + 2);
	await_round(&right, rounds[1] + 2);
	check_charged("all", charged);
	check_quota(&left);
	check_quota(&right);
	end(&left);
	end(&right);
	check_charged("all", 0);
}

// Whoever is brought back has its place, or is not brought back.
static void check_recovery(const struct program *program, const char *vgpu, uint64_t charged)
{
	if (kill(program->pid, 0) < 0)
		return; // it was not made yet
	if (run("recover --pid %d", (int)program->pid) == 0) {
		check_looks_on(program);
		check_charged(vgpu, charged);
	} else {
		CHECK_CONTAINS(said, "refused (no-slot)");
		check_charged(vgpu, 0);
	}
}

// What is left is ended, and everything is refunded: no slot stays with nobody.
TEST(a_restore_that_is_killed_costs_no_quota)
{
	static const char *const phases[] = {"host-in", "device-in", "unlock"};

	prepare(true);
	create_vgpu("torn", "512M");
	struct program program = start("torn", "torn", "64", "16", "512");
	uint64_t charged = charged_now("torn");
	CHECK_INT(run("dump --vgpu torn --dir %s", path_of("torn.image")), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("torn", 0);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("restore", 0, path_of("torn.image"), phases[i], "kill"), -SIGKILL);
		check_recovery(&program, "torn", charged);
		kill(program.pid, SIGKILL); // it may have come as far as that
		await_end(program.pid);
		check_charged("torn", 0);
	}
	unsigned round = report_of(&program).round;
	if (run("restore --detach --dir %s", path_of("torn.image")))
		FAIL("restore: %s", said);
	await_round(&program, round + 2);
	check_charged("torn", charged);
	end(&program);
}

// Killed between CRIU's end and the place: the process is there, stopped, with nothing charged.
TEST(who_never_got_its_place_does_not_come_back_to_the_gpu)
{
	char script[PATH_MAX * 2], real[PATH_MAX];

	prepare(true);
	snprintf(real, sizeof real, "%s", getenv("VIRGATE_CRIU") ? getenv("VIRGATE_CRIU") : "criu");
	create_vgpu("place", "512M");
	struct program program = start("place", "place", "64", "16", "512");
	uint64_t charged = charged_now("place");
	CHECK_INT(run("dump --vgpu place --dir %s", path_of("place.image")), 0);
	CHECK_INT(await_run(&program), 75);
	snprintf(script, sizeof script, "#!/bin/sh\n%s \"$@\"\nr=$?\n[ \"$1\" != restore ] || kill -9 $PPID\nexit $r\n",
		 real);
	write_text("killer", script);
	CHECK_INT(chmod(path_of("killer"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("killer"), 1);
	CHECK(run("restore --detach --dir %s", path_of("place.image")) != 0);
	prepare(true);
	CHECK_INT(kill(program.pid, 0), 0);
	check_charged("place", 0);
	CHECK_INT(run("recover --pid %d", (int)program.pid), 1);
	CHECK_CONTAINS(said, "refused (no-slot)");
	kill(program.pid, SIGKILL);
	await_end(program.pid);
	unsigned round = report_of(&program).round;
	if (run("restore --detach --dir %s", path_of("place.image")))
		FAIL("restore: %s", said);
	await_round(&program, round + 2);
	check_charged("place", charged);
	end(&program);
}

// A driver that refuses to take it back: what was made is ended, and the quota is free again.
TEST(a_restore_that_fails_costs_no_quota)
{
	prepare(true);
	create_vgpu("late", "512M");
	struct program program = start("late", "late", "64", "16", "512");
	CHECK_INT(run("dump --vgpu late --dir %s", path_of("late.image")), 0);
	CHECK_INT(await_run(&program), 75);
	setenv("VIRGATE_SIM_FAULT", "cuCheckpointProcessRestore:1=CUDA_ERROR_UNKNOWN", 1);
	CHECK_INT(run("restore --detach --dir %s", path_of("late.image")), 125);
	unsetenv("VIRGATE_SIM_FAULT");
	CHECK_CONTAINS(said, "the processes were ended");
	await_end(program.pid);
	check_charged("late", 0);
}

TEST(zz_the_daemon_goes)
{
	prepare(false);
	run("shutdown");
}
