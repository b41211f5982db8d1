// Tests records of operations on regions in the audit log, and operations that cannot be recorded.
#include "sealed_test.h"

#include "virgate/audit.h"

#include <signal.h>
#include <sys/resource.h>

static int events_of(const char *path, const char *event)
{
	char wanted[64];
	size_t length;
	int count = 0;
	char *text = read_file(path, &length);

	snprintf(wanted, sizeof wanted, "\"event\":\"%s\"", event);
	for (char *at = text; (at = strstr(at, wanted)); at++)
		count++;
	free(text);
	return count;
}

static void contains(const char *path, const char *part)
{
	size_t length;
	char *text = read_file(path, &length);

	CHECK_CONTAINS(text, part);
	free(text);
}

static uint64_t is_whole(const char *path)
{
	struct vg_audit_options options = {.size = sizeof options, .key_file = path_of("secret")};
	struct vg_audit_report report = {.size = sizeof report};

	OK(vg_audit_verify(path, &options, &report));
	return report.records;
}

static struct vg_vram *open_recording(const char *path)
{
	struct vg_vram *vram;

	OK(open_with(KEY_DIGITS, "train", NULL, path, &vram));
	return vram;
}

static size_t more_than_there_is(struct vg_vram *vram)
{
	struct vg_vram_capacity capacity;

	OK(vg_vram_capacity(vram, &capacity));
	return capacity.total + (1 << 30);
}

TEST(every_operation_is_recorded)
{
	const char *path = path_of("everything");
	struct vg_vram *vram = open_recording(path);
	struct vg_attestation attestation;
	struct vg_vram_handle handle, none;
	struct vg_seal seal;
	char part[128];

	handle = allocate_sealed(vram, 1234, PLAIN, &seal);
	snprintf(part, sizeof part, "\"event\":\"allocated\",\"handle\":\"%llx\",\"bytes\":1234,\"device\":\"%s\"",
		 (unsigned long long)handle.value, seal.device);
	contains(path, part);
	snprintf(part, sizeof part, "\"id\":\"layer-0\",\"generation\":%llu,", (unsigned long long)seal.generation);
	contains(path, part);
	CHECK_INT(events_of(path, "sealed"), 1);
	OK(vg_vram_verify(handle, &seal));
	CHECK_INT(events_of(path, "verified"), 1);
	OK(vg_vram_attest(handle, &attestation));
	CHECK_INT(events_of(path, "attested"), 1);
	REFUSED(vg_vram_fill(handle, 0, 1, 1), VG_POLICY, "sealed");
	CHECK_INT(events_of(path, "policy violation"), 1);
	contains(path, "\"text\":\"the region is sealed, and its contents are frozen: unseal it before writing\"");
	REFUSED(vg_vram_seal(handle, &layer, &seal), VG_POLICY, "sealed already");
	CHECK_INT(events_of(path, "policy violation"), 2);
	OK(vg_vram_unseal(handle));
	CHECK_INT(events_of(path, "unsealed"), 1);
	OK(vg_vram_seal(handle, &layer, &seal));
	write_unseen(handle, 7, 'x');
	CHECK_INT(vg_vram_verify(handle, &seal), VG_INTEGRITY);
	CHECK_INT(events_of(path, "verification failed"), 1);
	contains(path, "\"text\":\"the region does not hold what was sealed as layer-0: its contents were changed\"");
	CHECK_INT(vg_vram_unseal(handle), VG_INTEGRITY);
	CHECK_INT(events_of(path, "policy violation"), 3);
	OK(vg_vram_free(handle));
	CHECK_INT(events_of(path, "deallocated"), 1);
	size_t much = more_than_there_is(vram);
	CHECK_INT(vg_vram_allocate(vram, much, NULL, &none), VG_INSUFFICIENT);
	CHECK(vg_last_error()->need >= much); // recording the failure in the audit log does not change the error
	CHECK_INT(events_of(path, "allocation failed"), 1);
	snprintf(part, sizeof part, "\"event\":\"allocation failed\",\"handle\":\"0\",\"bytes\":%zu,", much);
	contains(path, part);
	handle = allocate(vram, 10); // this region is freed when the context is closed
	OK(vg_vram_close(vram, NULL));
	CHECK_INT(events_of(path, "deallocated"), 2);
	vg_vram_destroy(vram);
	CHECK_INT(is_whole(path), 14);
}

// Each record names its vGPU.
TEST(contexts_of_two_vgpus_use_one_log)
{
	const char *path = path_of("both");
	struct vg_vram *one = open_recording(path), *two;

	OK(open_with(KEY_DIGITS, "evaluate", NULL, path, &two));
	for (int i = 0; i < 10; i++) {
		struct vg_vram_handle a = allocate(one, 10), b = allocate(two, 20);
		OK(vg_vram_free(b));
		OK(vg_vram_free(a));
	}
	close_vram(one);
	close_vram(two);
	contains(path, "\"vgpu\":\"train\"");
	contains(path, "\"vgpu\":\"evaluate\"");
	CHECK_INT(is_whole(path), 40);
}

TEST(open_refuses_a_damaged_log)
{
	const char *path = path_of("damaged");
	struct vg_vram *vram = open_recording(path);

	OK(vg_vram_free(allocate(vram, 10)));
	close_vram(vram);
	CHECK_INT(truncate(path, 50), 0);
	REFUSED(open_with(KEY_DIGITS, "train", NULL, path, &vram), VG_INTEGRITY, "virgate audit verify says more");
}

// ---- failures of the log ---------------------------------------------------------------------------------

static int errors;

static void count_errors(void *user, enum vg_log_level level, const char *text)
{
	errors += level == VG_LOG_ERROR && strstr(text, "could not be recorded");
}

static struct rlimit unlimited;

// Limits the size of files, which simulates a full disk.
static void fill_disk(const char *path)
{
	struct stat stat_;
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(stat(path, &stat_), 0);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
	limit = unlimited;
	limit.rlim_cur = (rlim_t)stat_.st_size + 10;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void free_disk(void)
{
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
}

TEST(unrecorded_operations_are_rolled_back)
{
	const char *path = path_of("full");
	struct vg_vram *vram = open_recording(path);
	struct vg_vram_capacity before, after;
	struct vg_vram_handle handle = allocate(vram, 100), none = {0};
	struct vg_attestation attestation;
	struct vg_seal seal;

	// the first seal allocates scratch memory for the hash, so that the capacity does not change later
	OK(vg_vram_seal(handle, &layer, &seal));
	OK(vg_vram_unseal(handle));
	seal.size = 1;
	uint64_t records = is_whole(path);
	OK(vg_vram_capacity(vram, &before));
	fill_disk(path);
	enum vg_status allocated = vg_vram_allocate(vram, 100, NULL, &none),
		       sealed = vg_vram_seal(handle, &layer, &seal), attested = vg_vram_attest(handle, &attestation);
	free_disk();
	CHECK_INT(allocated, VG_SYSTEM);
	CHECK_INT(sealed, VG_SYSTEM);
	CHECK_INT(attested, VG_SYSTEM);
	CHECK_CONTAINS(vg_last_error()->text, "cannot append a record");
	CHECK_INT(none.value, 0);
	CHECK_INT(seal.size, 1);
	OK(vg_vram_capacity(vram, &after));
	CHECK_INT(after.used, before.used);
	CHECK_INT(after.regions, before.regions);
	CHECK_INT(is_whole(path), records);
	OK(vg_vram_fill(handle, 0, 1, 100)); // not frozen
	OK(vg_vram_seal(handle, &layer, &seal));
	fill_disk(path);
	enum vg_status unsealed = vg_vram_unseal(handle), verified = vg_vram_verify(handle, &seal);
	free_disk();
	CHECK_INT(unsealed, VG_SYSTEM);
	CHECK_INT(verified, VG_SYSTEM); // the contents are right, but the verification could not be recorded
	REFUSED(vg_vram_fill(handle, 0, 1, 1), VG_POLICY, "sealed");
	OK(vg_vram_verify(handle, &seal)); // the failed record did not quarantine the region
	OK(vg_vram_free(handle));
	close_vram(vram);
	is_whole(path);
}

TEST(operations_without_rollback_report_the_missing_record)
{
	const char *path = path_of("full2");
	struct vg_vram *vram = open_recording(path);
	struct vg_seal seal;
	struct vg_vram_handle handle = allocate(vram, 100), bad = allocate_sealed(vram, 100, PLAIN, &seal), none;

	write_unseen(bad, 1, 99);
	vg_log_set(count_errors, NULL);
	fill_disk(path);
	enum vg_status freed = vg_vram_free(handle);
	char text[1024];
	snprintf(text, sizeof text, "%s", vg_last_error()->text);
	enum vg_status verified = vg_vram_verify(bad, &seal);
	int after_verify = errors;
	enum vg_status allocated = vg_vram_allocate(vram, more_than_there_is(vram), NULL, &none);
	free_disk();
	vg_log_set(NULL, NULL);
	CHECK_INT(freed, VG_SYSTEM);
	CHECK_CONTAINS(text, "the region was freed, and that is not recorded: audit log ");
	REFUSED(vg_vram_free(handle), VG_STALE, "names no region");
	// the status is that of the verification; the log callback reports the missing record
	CHECK_INT(verified, VG_INTEGRITY);
	CHECK_INT(after_verify, 1);
	CHECK_INT(allocated, VG_INSUFFICIENT);
	CHECK_INT(errors, 2);
	check_quarantined(vram, bad, &seal);
	close_vram(vram);
	is_whole(path);
}

TEST(operations_fail_after_the_log_was_removed)
{
	const char *path = path_of("removed");
	struct vg_vram *vram = open_recording(path);
	struct vg_vram_handle handle = allocate(vram, 100), none;
	struct vg_seal seal;

	CHECK_INT(unlink(path), 0);
	REFUSED(vg_vram_allocate(vram, 100, NULL, &none), VG_SYSTEM, "was removed or replaced while it was open");
	REFUSED(vg_vram_seal(handle, &layer, &seal), VG_SYSTEM, "was removed or replaced");
	REFUSED(vg_vram_free(handle), VG_SYSTEM, "the region was freed, and that is not recorded");
	close_vram(vram);
}
