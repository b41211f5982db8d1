// Calls all functions of 64 virtual GPUs in random order, with 8 threads for each, for some seconds. At the end no
// thread may hang, no memory may be left on the device, and charges must match allocations.
// VIRGATE_STRESS_SECONDS is the duration, and VIRGATE_STRESS_SEED the random seed.
#include "stress.h"

static struct stress stress;

static unsigned seconds_asked(void)
{
	const char *text = getenv("VIRGATE_STRESS_SECONDS");

	return text ? (unsigned)atoi(text) : 5;
}

static uint64_t seed_asked(void)
{
	const char *text = getenv("VIRGATE_STRESS_SEED");

	return text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
}

// Fails the test if a thread makes no progress for a minute.
static void *watch(void *data)
{
	enum { STALLED = 60 };
	static uint64_t before[THREADS];
	static unsigned still[THREADS];

	for (unsigned second = 0; !atomic_load(&stress.done); second++) {
		sleep(1);
		for (int i = 0; i < THREADS; i++) {
			uint64_t now = atomic_load(&stress.workers[i].calls);
			still[i] = now == before[i] && !atomic_load(&stress.workers[i].ended) ? still[i] + 1 : 0;
			before[i] = now;
			if (still[i] < STALLED)
				continue;
			fprintf(stderr, "thread %d of virtual GPU %d: in %s for %d s (seed %llu)\n", i % AT_EACH,
				stress.workers[i].id, stress.workers[i].at, STALLED, (unsigned long long)stress.seed);
			abort();
		}
	}
	return NULL;
}

static void prepare(void)
{
	for (int i = 0; i < THREADS; i++)
		stress.workers[i] = (struct worker){.stress = &stress,
						    .id = i / AT_EACH + 1,
						    .stream = (unsigned)(i % AT_EACH),
						    .random = stress.seed + (uint64_t)i * 0x9e3779b97f4a7c15u};
}

static void start(pthread_t *threads)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 2 << 20);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], &attributes, stress_work, &stress.workers[i]), 0);
	pthread_attr_destroy(&attributes);
}

static uint64_t held(void)
{
	static struct vg_virtual_gpu_info infos[VGPUS];
	uint64_t sum = 0;
	size_t count;

	OK(vg_manager_list(stress.manager, infos, VGPUS, &count));
	for (size_t i = 0; i < count; i++) {
		CHECK(infos[i].memory_held <= infos[i].memory_limit);
		sum += infos[i].memory_held;
	}
	CHECK_INT(manager_info(stress.manager).memory_held, sum);
	return sum;
}

// Compares the charges with the device's free memory: every byte that is not charged must be free.
static void check_books(void)
{
	struct vg_device *device = first_device();
	uint64_t held_before = held(), held_after;
	size_t free_before = free_on(device), free_after;

	for (int i = 0; i < THREADS; i += 2)
		stress_free_blocks(&stress.workers[i]);
	for (int id = 1; id <= VGPUS; id++) {
		struct vg_virtual_gpu *vgpu;
		if (vg_manager_find(stress.manager, id, &vgpu))
			continue;
		OK(vg_memory_space_defragment(vg_virtual_gpu_memory(vgpu), NULL));
		vg_virtual_gpu_destroy(vgpu);
	}
	held_after = held();
	free_after = free_on(device);
	CHECK_INT(free_after - free_before, held_before - held_after);
}

// Runs the threads with one manager for some seconds. Returns how much memory is free on the device afterwards.
static size_t live(unsigned seconds)
{
	static pthread_t threads[THREADS];
	struct vg_manager_options options = {
		.size = sizeof options, .max_virtual_gpus = VGPUS, .virtual_streams = VGPUS * AT_EACH};
	pthread_t watcher;
	uint64_t calls = 0;
	size_t count;

	stress.manager = open_manager(&options);
	stress.limit = manager_info(stress.manager).memory_available / (VGPUS + 8) & ~(2 * MIB - 1);
	stress.limit = stress.limit < 256 * MIB ? stress.limit : 256 * MIB;
	atomic_store(&stress.stop, false);
	atomic_store(&stress.done, false);
	prepare();
	CHECK_INT(pthread_create(&watcher, NULL, watch, NULL), 0);
	start(threads);
	for (unsigned i = 0; i < seconds && !atomic_load(&stress.stop); i++)
		sleep(1);
	atomic_store(&stress.stop, true);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], NULL), 0);
		calls += atomic_load(&stress.workers[i].calls);
	}
	atomic_store(&stress.done, true);
	CHECK_INT(pthread_join(watcher, NULL), 0);
	printf("%llu calls, %llu virtual GPUs closed\n", (unsigned long long)calls,
	       (unsigned long long)atomic_load(&stress.closed));
	if (*stress.failure)
		FAIL("seed %llu: %s", (unsigned long long)stress.seed, stress.failure);
	check_books();
	CHECK(calls > THREADS);
	for (int i = 0; i < THREADS; i++) {
		stress_free_blocks(&stress.workers[i]);
		vg_virtual_gpu_destroy(stress.workers[i].vgpu);
	}
	OK(vg_manager_list(stress.manager, NULL, 0, &count));
	CHECK_INT(count, 0);
	CHECK_INT(manager_info(stress.manager).memory_promised, 0);
	CHECK_INT(manager_info(stress.manager).active_streams, 0);
	vg_manager_destroy(stress.manager);
	return free_on(first_device());
}

// Runs the stress test twice. At its first uses a driver allocates memory that it keeps: code of NVIDIA's libraries,
// channels for streams, local memory. The second run needs no more of that, so memory that is missing afterwards has
// leaked. The simulated driver keeps none.
TEST(all_calls_from_all_threads)
{
	enum { DRIVERS_OWN = 64 };
	const unsigned second = seconds_asked() / 2, first = seconds_asked() - second;
	const bool simulated = getenv("VIRGATE_SIM") != NULL;

	stress.seed = seed_asked();
	printf("seed %llu, %u s\n", (unsigned long long)stress.seed, seconds_asked());
	fflush(stdout);
	const size_t after_first = live(first), after_second = live(second);
	printf("%zu bytes free after the first manager, %zu after the second\n", after_first, after_second);
	if (simulated)
		CHECK_INT(after_second, after_first);
	else
		CHECK(after_second + DRIVERS_OWN * MIB >= after_first);
}
