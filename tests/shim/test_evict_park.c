// Tests a process that is parked: for a dump, its pager puts its host memory into a file that the process does not map.
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "parked.h"

static void parks_body(void)
{
	CUdeviceptr big, small, freed;
	struct pager_file file;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&freed, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&small, SMALL), CUDA_SUCCESS);
	fill(big, BIG, 3);
	fill(freed, BIG, 5);
	fill(small, SMALL, 4);
	move_out(PAGER_OUT);
	CHECK(count_mappings() > 0);
	CHECK_INT(count_descriptors(), 1);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuMemFree_v2(freed), CUDA_SUCCESS);
	for (uint32_t i = 1; i < 4; i++) {
		park(i);
		CHECK_INT(slot->host, slot->bytes);
		CHECK_INT(count_mappings(), 0);
		CHECK_INT(count_descriptors(), 0);
		file = read_file();
		CHECK_INT((uint32_t)file.process, getpid());
		// The file has no unused memory.
		CHECK_INT(measure_file(format_path(&file)), slot->bytes);
		park(i); // repeats the request, which has no effect
		unpark(PAGER_RUNNING);
		CHECK_INT(slot->host, 0);
		check_filled(big, BIG, 3);
		check_filled(small, SMALL, 4);
		pause_ms(20);
		CHECK_INT(access(format_path(&file), F_OK), -1);
		CHECK_INT(slot->file[2], 0);
		move_out(PAGER_OUT);
		move_in(PAGER_RUNNING);
	}
}

TEST(parked_memory_returns)
{
	run_evictable(parks_body);
}

// Parks a suspended process. The file must keep its name until the memory is back on the device.
static void suspended_body(void)
{
	struct pager_file file, again;
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 6);
	move_out(PAGER_OUT);
	park(1);
	file = read_file();
	unpark(PAGER_OUT);
	CHECK_INT(access(format_path(&file), F_OK), 0);
	CHECK(count_mappings() > 0);
	park(2);
	again = read_file();
	CHECK_INT(again.number, file.number);
	atomic_store(&slot->out, 0); // the daemon withdraws the request meanwhile
	unpark(PAGER_RUNNING);
	check_filled(memory, SMALL, 6);
	for (int i = 0; i < 1000 && access(format_path(&file), F_OK) == 0; i++)
		pause_ms(1);
	CHECK_INT(access(format_path(&file), F_OK), -1);
}

TEST(a_suspended_process_stays_suspended)
{
	run_evictable(suspended_body);
}

static void set_swept(uint64_t place)
{
	atomic_store(&vg_ledger_pager_page(tenant_ledger)->swept, place);
}

static void kept_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 8);
	set_swept(pager_file_place(geteuid()));
	park(1);
	struct pager_file file = read_file();
	unpark(PAGER_RUNNING);
	park(2);
	struct pager_file again = read_file();
	CHECK_INT(again.number, file.number);
	unpark(PAGER_RUNNING);
	CHECK_INT(unlink(format_path(&file)), 0);
	park(3);
	again = read_file();
	CHECK(again.number != file.number);
	unpark(PAGER_RUNNING);
	check_filled(memory, SMALL, 8);
	pager_file_sweep(getpid()); // as if the process ran another program now
	CHECK_INT(access(format_path(&again), F_OK), -1);
	set_swept(pager_file_place(geteuid() + 1)); // the daemon of another user, which cannot remove the file
	park(4);
	again = read_file();
	unpark(PAGER_RUNNING);
	for (int i = 0; i < 1000 && access(format_path(&again), F_OK) == 0; i++)
		pause_ms(1);
	CHECK_INT(access(format_path(&again), F_OK), -1);
	check_filled(memory, SMALL, 8);
}

// The host memory is kept after a dump, in the same file, if the daemon can remove the file later. If another process
// has removed the file's name, the next dump uses a new file.
TEST(the_file_is_kept_while_it_has_its_name)
{
	run_evictable(kept_body);
}

static void nameless_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 9);
	move_out(PAGER_OUT);
	park(1);
	struct pager_file file = read_file();
	unpark(PAGER_OUT);
	CHECK_INT(unlink(format_path(&file)), 0);
	ask_to_park(2);
	check_state(PAGER_OUT, PAGER_FILE);
	CHECK_INT(slot->row, ENOENT);
	ask_to_park(0);
	move_in(PAGER_RUNNING);
	check_filled(memory, SMALL, 9);
}

// The host's copy is the only one, and its file has lost its name: it must not be closed.
TEST(memory_in_a_file_without_its_name_is_not_parked)
{
	run_evictable(nameless_body);
}

// Simulates a restore, after which the memory is in another file than the one that the process created.
static void other_file_body(void)
{
	struct pager_file file, other;
	static char buffer[1 << 20];
	char from[128], to[128];
	CUdeviceptr memory;
	ssize_t length;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, BIG), CUDA_SUCCESS);
	fill(memory, BIG, 7);
	park(1);
	file = read_file();
	CHECK_INT(pager_file_choose(0, &other), 0);
	snprintf(from, sizeof from, "%s", format_path(&file));
	snprintf(to, sizeof to, "%s", format_path(&other));
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
	CHECK(in >= 0 && out >= 0);
	while ((length = read(in, buffer, sizeof buffer)) > 0)
		CHECK_INT(write(out, buffer, length), length);
	close(in);
	close(out);
	CHECK_INT(unlink(from), 0);
	slot->file[0] = other.process;
	slot->file[1] = other.start_time;
	slot->file[2] = other.number;
	unpark(PAGER_RUNNING);
	check_filled(memory, BIG, 7);
	park(2);
	unpark(PAGER_RUNNING);
	check_filled(memory, BIG, 7);
}

TEST(memory_is_read_from_the_file_in_the_slot)
{
	run_evictable(other_file_body);
}

static void check_broken(const struct pager_file *file, uint32_t error)
{
	slot->file[0] = file->process;
	slot->file[1] = file->start_time;
	slot->file[2] = file->number;
	ask_to_park(0);
	check_state(PAGER_BROKEN, PAGER_FILE);
	CHECK_INT(slot->row, error);
}

static void missing_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	park(1);
	struct pager_file file = read_file();
	CHECK_INT(unlink(format_path(&file)), 0);
	check_broken(&file, ENOENT);
	CHECK(cuMemsetD8_v2(memory, 0, 1) != CUDA_SUCCESS); // the call does not hang
}

static void short_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	park(1);
	struct pager_file file = read_file();
	CHECK_INT(truncate(format_path(&file), 4096), 0);
	check_broken(&file, EINVAL);
	CHECK_INT(unlink(format_path(&file)), 0);
}

TEST(missing_or_short_files_break_the_process)
{
	run_evictable(missing_body);
	run_evictable(short_body);
}

// Tests a file system that has no room because of a resource limit. The memory must be anonymous, and stay mapped.
static void anonymous_body(void)
{
	const struct rlimit limit = {1 << 20, 1 << 20};
	CUdeviceptr memory;

	signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
	start();
	CHECK_INT(cuMemAlloc_v2(&memory, BIG), CUDA_SUCCESS);
	fill(memory, BIG, 8);
	park(1);
	CHECK_INT(slot->file[2], 0);
	CHECK_INT(count_descriptors(), 0);
	CHECK_INT(slot->host, slot->bytes);
	unpark(PAGER_RUNNING);
	check_filled(memory, BIG, 8);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(memory, BIG, 8);
}

TEST(memory_without_a_file_stays_in_the_process)
{
	run_evictable(anonymous_body);
}

// Tests a file system of 64 MiB: enough for the first piece of host memory, not for the second one.
static void mixed_body(void)
{
	CUdeviceptr first, second;
	struct pager_file file;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", PAGER_FILE_DIRECTORY, "tmpfs", 0, "size=64m") < 0)
		return; // only root may mount a file system
	start();
	CHECK_INT(cuMemAlloc_v2(&first, 40 << 20), CUDA_SUCCESS);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuMemAlloc_v2(&second, 20 << 20), CUDA_SUCCESS);
	for (uint32_t i = 1; i < 3; i++) {
		fill(first, 40 << 20, i);
		fill(second, 20 << 20, i + 10);
		park(i);
		file = read_file();
		// In the second round, both allocations are in one piece of host memory, for which there is no room.
		CHECK_INT(file.number != 0, i == 1);
		if (file.number)
			CHECK_INT(measure_file(format_path(&file)), 40 << 20);
		CHECK_INT(count_mappings(), 0);
		unpark(PAGER_RUNNING);
		check_filled(first, 40 << 20, i);
		check_filled(second, 20 << 20, i + 10);
	}
}

TEST(a_quarter_of_the_file_system_stays_free)
{
	run_evictable(mixed_body);
}

// Tests a program that closes all descriptors, and thereby the pager's. The file cannot get a name then.
static void closed_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	fill(memory, SMALL, 9);
	move_out(PAGER_OUT);
	CHECK_INT(visit_descriptors(true), 1);
	ask_to_park(1);
	check_state(PAGER_OUT, PAGER_FILE);
	CHECK_INT(slot->row, EBADF);
	unpark(PAGER_OUT);
	move_in(PAGER_RUNNING);
	check_filled(memory, SMALL, 9);
}

TEST(files_closed_by_the_program_are_not_parked)
{
	run_evictable(closed_body);
}

// Tests memory that cannot leave the device. It must stay there until the request is withdrawn, even if the daemon
// makes further requests.
static void refused_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&memory, BIG), CUDA_SUCCESS);
	fill(memory, BIG, 1);
	ask_to_park(1); // the swap is too small for the memory
	check_state(PAGER_RUNNING, PAGER_HOST);
	CHECK(slot->missing > 0);
	CHECK_INT(count_mappings(), 0);
	CHECK_INT(count_descriptors(), 0);
	request_move(true, 5000);
	wait_for_answer();
	check_state(PAGER_RUNNING, PAGER_HOST);
	fill(memory, BIG, 2);
	atomic_store(&slot->out, 0);
	ask_to_park(0);
	CHECK_INT(slot->state, PAGER_RUNNING);
}

TEST(memory_that_cannot_be_parked_stays_on_the_device)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 400 * MIB;
	TENANT(950 * MIB, 16 * MIB, refused_body);
}

static void nothing_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
	park(1);
	CHECK_INT(slot->file[2], 0);
	unpark(PAGER_RUNNING);
}

TEST(processes_without_memory_are_parked_without_a_file)
{
	run_evictable(nothing_body);
}

// Checks that the pager's gate, where threads wait for their device memory, stays closed while the process is parked.
// Threads that already wait there must stay, too.
static void waits_body(void)
{
	CUdeviceptr memory;
	pthread_t thread;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	park(1);
	CHECK_INT(pthread_create(&thread, NULL, launch, (void *)(uintptr_t)memory), 0);
	while (slot->waiting == 0)
		pause_ms(1);
	pause_ms(100);
	CHECK_INT(done, 0);
	unpark(PAGER_RUNNING);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(slot->waiting, 0);
	check_filled(memory, SMALL, 13);
}

TEST(threads_wait_while_the_process_is_parked)
{
	run_evictable(waits_body);
}

static void forked_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	move_out(PAGER_OUT);
	CHECK_INT(count_descriptors(), 1);
	pid_t child = fork();
	if (child == 0)
		_exit(count_descriptors() == 0 && count_mappings() == 0 ? 0 : 1);
	CHECK_CHILD(child);
	move_in(PAGER_RUNNING);
}

TEST(forked_children_inherit_no_host_memory)
{
	run_evictable(forked_body);
}

static unsigned int count_files(void)
{
	DIR *directory = opendir(PAGER_FILE_DIRECTORY);
	struct pager_file file;
	unsigned int count = 0;

	for (struct dirent *entry; (entry = readdir(directory));)
		count += pager_file_parse(entry->d_name, &file);
	closedir(directory);
	return count;
}

static void killed_body(void)
{
	CUdeviceptr memory;

	start();
	CHECK_INT(cuMemAlloc_v2(&memory, SMALL), CUDA_SUCCESS);
	park(1);
	struct pager_file file = read_file();
	pager_file_sweep(0);
	// the process that owns the file lives, so the file must still exist
	CHECK_INT(access(format_path(&file), F_OK), 0);
	int fd = open("killed", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK_INT(write(fd, &file, sizeof file), sizeof file);
	close(fd);
}

TEST(files_of_killed_processes_are_removed)
{
	struct pager_file file;

	run_evictable(killed_body);
	int fd = open("killed", O_RDONLY);
	CHECK_INT(read(fd, &file, sizeof file), sizeof file);
	close(fd);
	unlink("killed");
	CHECK_INT(access(format_path(&file), F_OK), 0);
	CHECK(count_files() > 0);
	pager_file_sweep(0);
	CHECK_INT(access(format_path(&file), F_OK), -1);
}

TEST(file_names_are_parsed_strictly)
{
	static const char *const wrong[] = {"",
					    "virgate-host.",
					    "virgate-host.1.2.3.4",
					    "virgate-host.1.2.3.0000000000000004x",
					    "virgate-host.01.2.3.0000000000000004",
					    "virgate-host.1.-2.3.0000000000000004",
					    "other.1.2.3.0000000000000004"};
	struct pager_file file, parsed;
	char name[PAGER_FILE_NAME];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(!pager_file_parse(wrong[i], &parsed));
	CHECK_INT(pager_file_choose(0, &file), 0);
	CHECK(file.number != 0);
	CHECK_INT((uint32_t)file.process, getpid());
	pager_file_format(&file, name);
	CHECK(pager_file_parse(name, &parsed));
	CHECK(memcmp(&file, &parsed, sizeof file) == 0);
}
