// Kills a process at every step of its work with the simulated node. The next process that reaps dead processes must
// free everything that the killed process had.
#include "crash.h"

#include <dirent.h>
#include <fcntl.h>

// The observer is a process that is never killed. It has KEPT bytes in the middle of the device memory, so that the
// free memory is in two parts.
static struct region *observer;
static uint64_t kept;
static const size_t KEPT = 2 * MIB;

static void start_node(void)
{
	uint64_t before;

	if (observer)
		return;
	make_node("memory=64M");
	observer = join();
	CHECK_INT(region_alloc(observer, 0, 2 * MIB, &before), 0);
	CHECK_INT(region_alloc(observer, 0, KEPT, &kept), 0);
	region_unref(observer, before);
}

static unsigned count_exports(void)
{
	DIR *files = opendir(directory);
	unsigned count = 0;

	CHECK(files != NULL);
	for (struct dirent *entry; (entry = readdir(files));)
		count += strncmp(entry->d_name, "export-", 7) == 0;
	closedir(files);
	return count;
}

// Checks that no process but the observer has memory, disk space, a slot, an event or a file.
static void check_clean(void)
{
	const struct region_header *h = observer->header;
	unsigned blocks = 0, processes = 0, events = 0;
	struct stat device;

	alarm(TEST_CHILD_SECONDS); // ends the test if the lock of a dead process stays locked
	CHECK_INT(region_used(observer, 0), KEPT);
	alarm(0);
	for (uint32_t i = 0; i < observer->blocks_per_device; i++)
		blocks += h->blocks[i].first != 0;
	CHECK_INT(blocks, KEPT / REGION_BLOCK);
	CHECK_INT(h->orphans, 0);
	for (int i = 0; i < REGION_PROCESSES; i++)
		processes += h->processes[i].pid != 0;
	CHECK_INT(processes, 1);
	CHECK_INT(h->processes[observer->slot].used[0], KEPT);
	for (int i = 0; i < REGION_EVENTS; i++)
		events += h->events[i].used;
	CHECK_INT(events, 0);
	CHECK_INT(count_exports(), 0);
	CHECK_INT(fstat(observer->devices[0], &device), 0);
	CHECK_INT(device.st_blocks * 512, KEPT);
}

static void alloc_and_free(void)
{
	struct region *region = join();
	uint64_t one, two;

	MUST(region_alloc(region, 0, 6 * MIB, &one));
	MUST(region_alloc(region, 0, 2 * MIB, &two));
	region_unref(region, one);
	MUST(region_alloc(region, 0, 4 * MIB, &one));
	region_unref(region, two);
	region_unref(region, one);
}

static void alloc_and_close(void)
{
	struct region *region = join();
	uint64_t one;

	MUST(region_alloc(region, 0, 6 * MIB, &one));
	region_close(region);
}

static void exceed_memory(void)
{
	struct region *region = join();
	uint64_t one, two;

	MUST(region_alloc(region, 0, 58 * MIB, &one));
	if (region_alloc(region, 0, 6 * MIB, &two) != REGION_FULL)
		_exit(4);
	region_unref(region, one);
}

// Exports memory, and drops the last reference to it before or after the descriptor is closed. An open descriptor must
// keep the memory.
static void export_and_free(void)
{
	struct region *region = join();
	struct region_export what = {.kind = REGION_EXPORT_MEMORY};
	int descriptor;

	for (int early = 0; early < 2; early++) {
		MUST(region_alloc(region, 0, 4 * MIB, &what.id));
		MUST(region_export(region, &what, 0, &descriptor));
		if (early)
			close(descriptor);
		region_unref(region, what.id);
		if (!early)
			close(descriptor);
		region_used(region, 0); // reaps
	}
}

// Allocates memory as one process of the simulated node, and takes references to it as another one. Both are this
// process, which joins the node twice.
static void pass_memory(void)
{
	struct region *first = join(), *second = join();
	uint64_t id;
	size_t size;
	int device;

	MUST(region_alloc(first, 0, 4 * MIB, &id));
	MUST(region_ref(second, id, &device, &size));
	region_unref(first, id);
	MUST(region_ref(first, id, &device, &size));
	region_unref(second, id);
	region_unref(first, id);
	MUST(region_alloc(first, 0, 2 * MIB, &id));
	MUST(region_ref(second, id, &device, &size));
	region_close(first);
	region_close(second);
}

// Takes and drops a reference to memory that is charged to the observer.
static void use_observers_memory(void)
{
	struct region *region = join();
	size_t size;
	int device;

	MUST(region_ref(region, kept, &device, &size));
	region_unref(region, kept);
	MUST(region_ref(region, kept, &device, &size));
	region_close(region);
}

static void pass_events(void)
{
	struct region *first = join(), *second = join();
	uint32_t index, generation;

	MUST(region_event_create(first, &index, &generation));
	MUST(region_event_ref(second, index, generation));
	region_event_unref(first, index);
	region_event_unref(second, index);
	MUST(region_event_create(first, &index, &generation));
	region_close(first);
}

static void detach_and_attach(void)
{
	struct region *region = join();
	uint64_t id;

	region_detach(region);
	MUST(region_attach(region, &config));
	MUST(region_alloc(region, 0, 2 * MIB, &id));
}

static void reap(void)
{
	region_close(join()); // joining reaps dead processes
}

static const struct {
	const char *name;
	void (*work)(void);
	int least; // least number of steps
	// whether the test a_reaper_may_be_killed_at_any_step does this work, too
	bool reaped;
} works[] = {{"alloc_and_free", alloc_and_free, 40, true}, {"alloc_and_close", alloc_and_close, 20},
	     {"exceed_memory", exceed_memory, 60},	   {"export_and_free", export_and_free, 40, true},
	     {"pass_memory", pass_memory, 40, true},	   {"use_observers_memory", use_observers_memory, 10},
	     {"pass_events", pass_events, 15, true},	   {"detach_and_attach", detach_and_attach, 10}};
enum { WORKS = sizeof works / sizeof *works };

TEST(memory_of_a_process_killed_at_any_step_is_freed)
{
	start_node();
	for (unsigned w = 0; w < WORKS; w++) {
		int step = 0;
		do {
			run_until(works[w].work, step);
			check_clean();
		} while (!reached_end && ++step < 2000);
		if (!reached_end || step < works[w].least)
			FAIL("%s: %d steps", works[w].name, step);
	}
}

// With the address sanitizer, forks are slow, so the reaper is killed only at every fourth step. The first of these
// steps changes with the step at which the other process was killed. Memory errors do not depend on the combination of
// both.
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 4 };
#else
enum { STRIDE = 1 };
#endif

// Kills a process at every step, and its reaper at every step of reaping it.
TEST(a_reaper_may_be_killed_at_any_step)
{
	start_node();
	for (unsigned w = 0; w < WORKS; w++) {
		bool ended = !works[w].reaped;
		for (int step = 0; !ended; step++) {
			int reaper_step = step % STRIDE;
			do {
				run_until(works[w].work, step);
				ended = reached_end;
				run_until(reap, reaper_step);
				check_clean();
			} while (!reached_end && (reaper_step += STRIDE) < 2000);
			CHECK(reached_end && reaper_step >= 5);
		}
	}
}
