// Tests dumps and restores of programs of vGPUs with their quota. The ledger must be exact at every moment. Tests that
// need a real CRIU say so; the others use the stand-in.
#include "pager/page.h"
#include "tenants_test.h"

// ---- dumps with the stand-in -------------------------------------------------------------------------

// Returns how many events of the vGPU tell of a dump into an image whose path contains `image`.
static int count_dumps(const char *vgpu, const char *image)
{
	size_t i;
	json_t *one;
	int found = 0;

	CHECK_RUN("events %s --json", vgpu);
	json_t *list = json_loads(said, 0, NULL);
	json_array_foreach(json_object_get(list, "events"), i, one)
		found += strcmp(json_string_value(json_object_get(one, "kind")), "dumped") == 0 &&
			 strstr(json_string_value(json_object_get(one, "text")), image);
	json_decref(list);
	return found;
}

TEST(virgate_run_reports_the_dump_of_its_program)
{
	prepare(false);
	create_vgpu("told", "256M");
	struct program program = start("told", "told", "64", "32", "512");
	uint64_t charged = charged_now("told");

	CHECK(charged >= 64 * MIB);
	CHECK_RUN("dump --pid %d --dir %s", (int)program.pid, path_of("told.image"));
	CHECK_INT(await_run(&program), 75);
	check_charged("told", 0);
	// Virgate has written nothing to the log on standard error, since the program may have that file open.
	struct stat info;
	CHECK_INT(stat(path_of("told.log"), &info), 0);
	CHECK_INT(info.st_size, 0);
	char vgpu[32] = "\"vgpu\": \"told\"", *text = malloc(1 << 20);
	CHECK(vg_file_read(path_of("told.image/virgate.json"), text, 1 << 20) > 0);
	CHECK_CONTAINS(text, vgpu);
	free(text);
	// A process that another program kills is not reported as dumped.
	program = start("told", "told2", "64", "32", "512");
	kill(program.pid, SIGKILL);
	CHECK_INT(await_run(&program), 128 + SIGKILL);
}

TEST(a_running_program_keeps_its_slot)
{
	prepare(false);
	create_vgpu("kept", "512M");
	struct program program = start("kept", "kept", "64", "32", "512");
	struct vg_ledger_tenant before = place_of("kept", program.pid);

	check_quota(&program);
	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "kept%d.image", i);
		CHECK_RUN("dump --vgpu kept --dir %s --leave-running", path_of(name));
		check_looks_on(&program);
		check_quota(&program);
		struct vg_ledger_tenant now = place_of("kept", program.pid);
		CHECK_INT(now.slot, before.slot);
		CHECK_INT(now.used, before.used);
		check_charged("kept", before.used);
		CHECK_INT(count_dumps("kept", path_of(name)), 1);
	}
	end(&program);
	check_charged("kept", 0);
}

// However the dump fails, and whatever command rolls it back, the slot must be the same.
TEST(a_recovered_program_has_its_slot)
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
	CHECK_INT(count_dumps("back", "image"), 0); // no image was complete
	end(&program);
}

TEST(a_program_is_stopped_between_two_allocations)
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

TEST(empty_vgpus_are_refused)
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

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	return ledger;
}

// Tests a program that has opened memory charged to another vGPU. The test makes the entry for it in the ledger of that
// vGPU. Every dump of the program must be refused.
TEST(shared_memory_is_refused)
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
	CHECK_INT(vg_ledger_shared_create(giver, 2 * MIB, &share), 0);
	CHECK_INT(vg_ledger_shared_add_name(giver, share, key, false), 0);
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
	CHECK_RUN("dump --vgpu guest --dir %s --leave-running", path_of("guest.image"));
	end(&program);
	CHECK(access(path_of("x"), F_OK) < 0);
}

// A request to suspend stays in effect during a dump. test_park.c has the rest.
TEST(a_program_that_is_suspended_meanwhile_stays_so)
{
	prepare(false);
	CHECK_RUN("create away --memory 256M --evictable");
	struct program program = start("away", "away", "64", "32", "512");
	setenv("COORDINATED", VIRGATE " suspend away --drain 1 >/dev/null 2>&1", 1);
	CHECK_INT(coordinate("dump", program.pid, path_of("x"), "lock", "run"), 0);
	CHECK_INT(await_run(&program), 75);
	check_charged("away", 0);
	struct vg_ledger *ledger = ledger_of("away");
	CHECK_INT(vg_ledger_pager_page(ledger)->suspended, 1);
	vg_ledger_close(ledger);
}

// ---- refused restores --------------------------------------------------------------------------------

TEST(a_vgpu_without_room_is_refused_with_figures)
{
	prepare(false);
	create_vgpu("full", "256M");
	struct program program = start("full", "full", "128", "8", "512");
	CHECK_RUN("dump --vgpu full --dir %s", path_of("full.image"));
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
	// With the limit that the message suggests, CRIU is started. Its failure refunds everything.
	CHECK_RUN("set full --memory 288M");
	write_text("fail", "restore\n");
	CHECK_INT(run("restore --detach --dir %s", path_of("full.image")), 125);
	CHECK(criu_was_asked_to_restore());
	check_charged("full", charged);
	end(&other);
	check_charged("full", 0);
}

// The user truncates the ledger while CRIU runs. The restore has changed the ledger, and must free what it has
// reserved.
TEST(a_ledger_that_is_truncated_meanwhile_ends_no_restore)
{
	char script[3 * PATH_MAX];

	prepare(false);
	create_vgpu("short", "256M");
	struct program program = start("short", "short", "128", "8", "512");
	CHECK_RUN("dump --vgpu short --dir %s", path_of("short.image"));
	CHECK_INT(await_run(&program), 75);
	check_charged("short", 0);
	snprintf(script, sizeof script,
		 "#!/bin/sh\n[ $1 = restore ] && truncate -s 0 '%s/run/ledgers/short'\nexec '%s' \"$@\"\n", directory,
		 STANDIN_PROGRAM);
	write_text("criu-truncate", script);
	CHECK_INT(chmod(path_of("criu-truncate"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu-truncate"), 1);
	write_text("fail", "restore\n");
	if (run("restore --detach --dir %s", path_of("short.image")) != 125)
		FAIL("%s", said);
	CHECK_CONTAINS(said, "told to fail");
	CHECK_RUN("rm --force short");
}

TEST(a_missing_vgpu_is_reported)
{
	prepare(false);
	CHECK_RUN("create gone --memory 256M --share 20 --limit --class latency");
	struct program program = start("gone", "gone", "64", "32", "512");
	CHECK_RUN("dump --vgpu gone --dir %s", path_of("gone.image"));
	CHECK_INT(await_run(&program), 75);
	check_charged("gone", 0);
	CHECK_RUN("rm gone");
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

// ---- the whole life ----------------------------------------------------------------------------------

TEST(a_tenant_is_restored_with_its_quota)
{
	prepare(true);
	create_vgpu("life", "512M");
	struct program program = start("life", "life", "128", "32", "512");
	struct vg_ledger_tenant before = place_of("life", program.pid);

	check_quota(&program);
	for (int i = 0; i < 2; i++) {
		char name[32];
		snprintf(name, sizeof name, "life%d.image", i);
		CHECK_RUN("dump --vgpu life --dir %s", path_of(name));
		if (i == 0)
			CHECK_INT(await_run(&program), 75);
		await_end(program.pid);
		check_charged("life", 0);
		// Another process uses the old slot of the program.
		struct program other = start("life", "other-life", "16", "8", "512");
		uint64_t others = charged_now("life");
		restore_and_wait(&program, "", path_of(name));
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
	// A restored process is refunded like any other process.
	kill(program.pid, SIGKILL);
	check_charged("life", 0);
	CHECK(!ps_shows("life", program.pid));
	await_end(program.pid);
}

TEST(all_tenants_of_a_vgpu_are_restored)
{
	prepare(true);
	create_vgpu("all", "512M");
	struct program left = start("all", "left", "64", "16", "512"),
		       right = start("all", "right", "128", "16", "512");
	uint64_t charged = charged_now("all");

	CHECK_RUN("dump --vgpu all --dir %s --json", path_of("all.image"));
	CHECK_CONTAINS(said, "\"processes\": 2");
	CHECK_INT(await_run(&left), 75);
	CHECK_INT(await_run(&right), 75);
	check_charged("all", 0);
	unsigned rounds[2] = {report_of(&left).round, report_of(&right).round};
	// If one of the pids is taken, the restore fails for all processes.
	CHECK_RUN("restore --detach --dir %s", path_of("all.image"));
	await_round(&left, rounds[0] + 2);
	await_round(&right, rounds[1] + 2);
	check_charged("all", charged);
	check_quota(&left);
	check_quota(&right);
	end(&left);
	end(&right);
	check_charged("all", 0);
}

// Checks that a recovered process has its slot, or stays off the GPU.
static void check_recovery(const struct program *program, const char *vgpu, uint64_t charged)
{
	if (kill(program->pid, 0) < 0)
		return; // the process was not made yet
	if (run("recover --pid %d", (int)program->pid) == 0) {
		check_looks_on(program);
		check_charged(vgpu, charged);
	} else {
		CHECK_CONTAINS(said, "refused (no-slot)");
		check_charged(vgpu, 0);
	}
}

// The processes of a killed restore are ended and refunded. No slot stays reserved.
TEST(a_restore_that_is_killed_costs_no_quota)
{
	static const char *const phases[] = {"host-in", "device-in", "unlock"};

	prepare(true);
	create_vgpu("torn", "512M");
	struct program program = start("torn", "torn", "64", "16", "512");
	uint64_t charged = charged_now("torn");
	CHECK_RUN("dump --vgpu torn --dir %s", path_of("torn.image"));
	CHECK_INT(await_run(&program), 75);
	check_charged("torn", 0);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("restore", 0, path_of("torn.image"), phases[i], "kill"), -SIGKILL);
		check_recovery(&program, "torn", charged);
		kill(program.pid, SIGKILL); // the process may exist by now
		await_end(program.pid);
		check_charged("torn", 0);
	}
	restore_and_wait(&program, "", path_of("torn.image"));
	check_charged("torn", charged);
	end(&program);
}

// The restore is killed after CRIU has ended, and before the slots are handed over. The stopped process exists, and
// nothing is charged.
TEST(a_process_without_a_slot_stays_off_the_gpu)
{
	char script[PATH_MAX * 2], real[PATH_MAX];

	prepare(true);
	snprintf(real, sizeof real, "%s", getenv("VIRGATE_CRIU") ? getenv("VIRGATE_CRIU") : "criu");
	create_vgpu("place", "512M");
	struct program program = start("place", "place", "64", "16", "512");
	uint64_t charged = charged_now("place");
	CHECK_RUN("dump --vgpu place --dir %s", path_of("place.image"));
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
	restore_and_wait(&program, "", path_of("place.image"));
	check_charged("place", charged);
	end(&program);
}

// The driver refuses to restore the process: its remains are ended, and the quota is free again.
TEST(a_restore_that_fails_costs_no_quota)
{
	prepare(true);
	create_vgpu("late", "512M");
	struct program program = start("late", "late", "64", "16", "512");
	CHECK_RUN("dump --vgpu late --dir %s", path_of("late.image"));
	CHECK_INT(await_run(&program), 75);
	setenv("VIRGATE_SIM_FAULT", "cuCheckpointProcessRestore:1=CUDA_ERROR_UNKNOWN", 1);
	CHECK_INT(run("restore --detach --dir %s", path_of("late.image")), 125);
	unsetenv("VIRGATE_SIM_FAULT");
	CHECK_CONTAINS(said, "the processes were ended");
	await_end(program.pid);
	check_charged("late", 0);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
