// Overwrites the ledger of one vGPU, and checks that the daemon and other vGPUs behave as before. The suite `slow`
// overwrites each word of the file.
#include "daemon_fixture.h"
#include "ledger/layout.h"
#include "ledger/shared.h"

#include <sys/prctl.h>

static const char *const patterns[] = {"zeroes", "ones", "a random word"};

// A race for a word does not depend on the word's value, so a run with the thread sanitizer writes only one value to
// each word. Zeroes cannot cause accesses outside an array, so a run with the address sanitizer writes only ones and
// random words.
#ifdef __SANITIZE_THREAD__
enum { FIRST_PATTERN = 2 };
#elif defined(__SANITIZE_ADDRESS__)
enum { FIRST_PATTERN = 1 };
#else
enum { FIRST_PATTERN = 0 };
#endif

static uint64_t pattern_word(size_t pattern)
{
	static uint64_t random = 88172645463325252ull;

	random ^= random << 13, random ^= random >> 7, random ^= random << 17;
	return pattern == 0 ? 0 : pattern == 1 ? UINT64_MAX : random;
}

// Starts a tenant of vGPU a that uses every part of the ledger: memory of several kinds, a shared allocation with a
// name, and a refusal.
static pid_t start_full_tenant(void)
{
	char path[400], byte = 0;
	int ready[2];

	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger_refusal refusal = {.asked = GIB, .entry = "cuMemAlloc_v2"};
		struct vg_ledger *ledger;
		uint32_t share;
		prctl(PR_SET_PDEATHSIG, SIGKILL); // the tenant ends even if the test fails
		byte = vg_ledger_open(path, &ledger) == 0 &&
		       vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 64 * MIB) == 0 &&
		       vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, 16 * MIB) == 0 &&
		       vg_ledger_shared_create(ledger, 2 * MIB, &share) == 0 &&
		       vg_ledger_shared_add_name(ledger, share, 4711, false) == 0;
		if (byte)
			vg_ledger_refusal(ledger, &refusal);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || !byte)
		FAIL("no tenant in a");
	close(ready[0]);
	return child;
}

static void make_victim(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0,'ephemeral':true,'evictable':true}", GIB));
}

// Removes the vGPU. That kills its tenant, whatever the vGPU's ledger contains.
static void remove_victim(pid_t tenant, const char *when)
{
	int status;

	for (;;) {
		json_t *reply = ask("{'op':'rm','name':'a','force':true}");
		const char *code = json_string_value(json_object_get(reply, "code"));
		bool gone = code && strcmp(code, "not_found") == 0;
		bool ending = json_integer_value(json_object_get(reply, "ending")) > 0;
		if (!gone && !agreed(reply))
			FAIL("%s: rm --force: %s", when, json_string_value(json_object_get(reply, "message")));
		json_decref(reply);
		if (gone || !ending)
			break;
		poll(NULL, 0, 1);
	}
	CHECK_INT(waitpid(tenant, &status, 0), tenant); // the removal of the vGPU killed the tenant
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// Returns what the daemon lists for vGPU b and for the GPU.
static char *list_others(const char *when)
{
	static const char *const requests[] = {"{'op':'inspect','name':'b'}", "{'op':'logs','name':'b'}",
					       "{'op':'devices'}"};
	json_t *all = json_array(), *row;
	size_t i;

	json_t *list = ask("{'op':'list'}");
	if (!agreed(list) || json_array_size(json_object_get(list, "vgpus")) != 2)
		FAIL("%s: list: %s", when, json_string_value(json_object_get(list, "message")));
	json_array_foreach(json_object_get(list, "vgpus"), i, row) {
		json_t *charged = json_object_get(row, "charged");
		bool damaged = json_is_true(json_object_get(row, "damaged"));
		if (strcmp(json_string_value(json_object_get(row, "name")), "b") == 0)
			json_array_append(all, row);
		else if (damaged ? !json_is_null(charged)
				 : json_integer_value(charged) < 0 || json_integer_value(charged) > (json_int_t)GIB)
			FAIL("%s: the row of a makes no sense", when);
	}
	json_decref(list);
	for (i = 0; i < sizeof requests / sizeof *requests; i++) {
		json_t *reply = ask("%s", requests[i]);
		if (!agreed(reply))
			FAIL("%s: %s: %s", when, requests[i], json_string_value(json_object_get(reply, "message")));
		json_array_append_new(all, reply);
	}
	char *text = json_dumps(all, JSON_SORT_KEYS);
	json_decref(all);
	return text;
}

static void check_others(const char *before, const char *when)
{
	char *now = list_others(when);

	if (strcmp(now, before) != 0)
		FAIL("%s: others changed: %s, before %s", when, now, before);
	free(now);
	CHECK_AGREED(ask("{'op':'set','name':'b','memory':%llu}", 2 * GIB));
	CHECK_AGREED(ask("{'op':'enter','vgpu':'b'}"));
	json_decref(ask("{'op':'logs','name':'a'}")); // any answer is right, but it must arrive in time
	json_decref(ask("{'op':'inspect','name':'a'}"));
	json_decref(ask("{'op':'suspend','name':'a'}"));
	json_decref(ask("{'op':'resume','name':'a'}"));
}

static void overwrite_words(size_t offset, size_t pattern, size_t words)
{
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	for (size_t i = 0; i < words; i++) {
		uint64_t word = pattern_word(pattern);
		CHECK_INT(pwrite(fd, &word, sizeof word, (off_t)(offset + i * sizeof word)), sizeof word);
	}
	close(fd);
}

static void check_word(const char *before, size_t offset, size_t words, bool restart)
{
	for (size_t pattern = FIRST_PATTERN; pattern < sizeof patterns / sizeof *patterns; pattern++) {
		char when[100];
		snprintf(when, sizeof when, "%s at offset %zu", patterns[pattern], offset);
		make_victim();
		pid_t tenant = start_full_tenant();
		CHECK_INT(figure("a", "tenants"), 1);
		overwrite_words(offset, pattern, words);
		check_others(before, when);
		if (restart) {
			kill_daemon();
			start_daemon();
			check_others(before, when);
		}
		remove_victim(tenant, when);
	}
}

static char *begin_sweep(pid_t *ret_tenant)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0,'ephemeral':true}", 2 * GIB));
	*ret_tenant = start_tenant("b", 8 * MIB);
	make_victim();
	pid_t tenant = start_full_tenant();
	char *before = list_others("at the beginning");
	CHECK_INT(figure("a", "charged"), 80 * MIB);
	remove_victim(tenant, "at the beginning");
	return before;
}

static void check_part(const char *before, size_t offset, size_t size, bool restart)
{
	for (size_t at = 0; at < size; at += sizeof(uint64_t))
		check_word(before, offset + at, 1, restart);
}

// Overwrites each field of the header, and restarts the daemon after each. Then overwrites fields of the tenant's slot,
// its shared allocation, the names, the refusal, and free slots.
TEST(overwritten_fields_harm_no_other_vgpu)
{
	const size_t slot = offsetof(struct ledger_file, slots), share = offsetof(struct ledger_file, shared),
		     refusal = offsetof(struct ledger_file, refusals), one = sizeof(uint64_t);
	pid_t tenant;
	char *before = begin_sweep(&tenant);

	check_part(before, 0, offsetof(struct ledger_header, account) + sizeof(ledger_word), true);
	check_part(before, refusal + sizeof(struct ledger_refusal_entry), 7 * one, false);
	check_part(before, slot, sizeof(struct ledger_slot), false);
	check_part(before, slot + sizeof(struct ledger_slot), 2 * one, false);
	check_part(before, slot + (VG_LEDGER_SLOTS - 1) * sizeof(struct ledger_slot), 2 * one, false);
	check_part(before, share, 5 * one, false);
	check_part(before, share + sizeof(struct ledger_shared), 3 * one, false);
	check_part(before, offsetof(struct ledger_file, names) + 4711 % LEDGER_NAMES * sizeof(ledger_word), 2 * one,
		   false);
	check_part(before, offsetof(struct ledger_file, processes), one, false);
	check_part(before, offsetof(struct ledger_file, pager), one, false);
	check_part(before, offsetof(struct ledger_file, pagers), sizeof(struct pager_slot), false);
	free(before);
	kill_tenant(tenant);
}

TEST(every_overwritten_word_harms_no_other_vgpu)
{
	enum { AT_ONCE = 128 };
	pid_t tenant;

	char *before = begin_sweep(&tenant);
	for (size_t at = 0; at < sizeof(struct ledger_file); at += AT_ONCE * sizeof(uint64_t))
		check_word(before, at, AT_ONCE, at % 65536 == 0);
	for (size_t at = 0; at < sizeof(struct ledger_header); at += sizeof(uint64_t))
		check_word(before, at, 1, true);
	free(before);
	kill_tenant(tenant);
}

// Writes a sum of charges that cannot be right into a ledger. The vGPU must become damaged: the daemon admits no new
// programs, and removes the vGPU after its programs have ended.
TEST(impossible_sum_is_damage)
{
	const size_t charged = offsetof(struct ledger_header, account);

	fresh_node();
	start_daemon();
	make_victim();
	pid_t tenant = start_full_tenant();
	CHECK_INT(figure("a", "tenants"), 1);
	overwrite_words(charged, 1, 1);
	json_t *reply = ask("{'op':'inspect','name':'a'}"), *row = json_object_get(reply, "vgpu");
	CHECK(json_is_true(json_object_get(row, "damaged")));
	CHECK(json_is_null(json_object_get(row, "charged")));
	CHECK_INT(json_array_size(json_object_get(row, "tenants")), 1); // the daemon remembers the tenant
	json_decref(reply);
	CHECK_REFUSED(
		ask("{'op':'enter','vgpu':'a'}"), "system",
		"the ledger of vGPU a is damaged, more is charged in it than its limit: remove it with `virgate rm "
		"--force a`");
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", 2 * GIB), "system", "is damaged");
	CHECK_REFUSED(ask("{'op':'rm','name':'a'}"), "busy", "1 on the GPU");
	kill_daemon();
	start_daemon(); // a program of the vGPU still runs, so the vGPU stays damaged
	reply = ask("{'op':'inspect','name':'a'}");
	CHECK(json_is_true(json_object_get(json_object_get(reply, "vgpu"), "damaged")));
	json_decref(reply);
	remove_victim(tenant, "at the end");
	CHECK_REFUSED(ask("{'op':'inspect','name':'a'}"), "not_found", "no vGPU a");
}

// Restarts the daemon after a tenant has written another limit into the ledger. The daemon must use the limit of the
// state file.
TEST(limit_written_by_a_tenant_is_replaced)
{
	const size_t limits = offsetof(struct ledger_header, limits);

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", GIB));
	kill_daemon();
	char path[400];
	uint64_t all[2] = {8 * GIB, 8 * GIB};
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_INT(pwrite(fd, all, sizeof all, (off_t)limits), sizeof all);
	close(fd);
	start_daemon();
	CHECK_INT(figure("a", "memory"), GIB);
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 7 * GIB));
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger *ledger;
		_exit(vg_ledger_open(path, &ledger) != 0 || vg_ledger_limit(ledger) != GIB);
	}
	CHECK_CHILD(child);
}

// Writes a process that is not in the vGPU into a slot. Removing the vGPU must not kill that process.
TEST(process_named_in_a_ledger_is_not_killed)
{
	const size_t owner = offsetof(struct ledger_file, slots) + sizeof(struct ledger_slot);
	struct vg_ledger_owner self;
	char path[400];
	int status;

	fresh_node();
	start_daemon();
	make_victim();
	pid_t bystander = fork();
	while (bystander == 0)
		pause();
	CHECK_INT(vg_ledger_self(&self), 0);
	CHECK_INT(vg_process_start_time(bystander, &self.start_time), 0);
	uint64_t words[2] = {(uint64_t)self.pid_namespace << 32 | (uint32_t)bystander, self.start_time};
	uint32_t touched = 2;
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_INT(pwrite(fd, words, sizeof words, (off_t)owner), sizeof words);
	CHECK_INT(pwrite(fd, &touched, sizeof touched, offsetof(struct ledger_header, slots_touched)), sizeof touched);
	close(fd);
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK_AGREED(ask("{'op':'rm','name':'a','force':true}"));
	CHECK_REFUSED(ask("{'op':'inspect','name':'a'}"), "not_found", "no vGPU a");
	CHECK_INT(waitpid(bystander, &status, WNOHANG), 0);
	kill_tenant(bystander);
}
