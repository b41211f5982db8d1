// Tests the monitor's thread with a fake manager: virtual GPUs that appear and disappear, callbacks, invalid input, and
// many threads.
#include "monitor_fake.h"

#include <jansson.h>

struct calls {
	struct vg_monitor *monitor;
	atomic_uint beyond, back;
	atomic_int last_id;
	_Atomic(double) last_value;
	pthread_t thread;
	uint64_t watch;
	enum vg_status status;
	atomic_bool hold, held;
};

static void count_call(void *user, const struct vg_watch_event *event)
{
	struct calls *calls = user;

	calls->last_id = event->id;
	calls->last_value = event->value;
	calls->thread = pthread_self();
	CHECK_INT(event->sample->id, event->id);
	(*(event->beyond ? &calls->beyond : &calls->back))++;
}

static uint64_t watch_memory(struct vg_monitor *monitor, int id, double threshold, vg_watch_fn *callback, void *user)
{
	struct vg_watch watch = {.size = sizeof watch,
				 .id = id,
				 .metric = VG_METRIC_MEMORY_UTILIZATION,
				 .threshold = threshold,
				 .hysteresis = 0.1,
				 .callback = callback,
				 .user = user};
	uint64_t number = 0;

	OK(vg_monitor_watch(monitor, &watch, &number));
	return number;
}

static void set_held(double first, double second)
{
	set_readings((struct monitor_reading[]){reading_of(1, 11, first), reading_of(4, 14, second)}, 2);
}

TEST(samples_are_taken_and_kept)
{
	struct vg_sample sample, samples[4];
	struct vg_monitor_info info;
	size_t count = 0;

	set_held(20, 40);
	struct vg_monitor *monitor = fake_monitor(3);
	OK(vg_monitor_sample(monitor, 4, &sample));
	CHECK(sample.id == 4 && sample.memory_held.known && sample.memory_held.value == 40);
	CHECK(!sample.compute_utilization.known && !sample.queue_length.known);
	pass_samples(monitor);
	OK(vg_monitor_history(monitor, 1, NULL, 0, &count));
	CHECK_INT(count, 3);
	OK(vg_monitor_history(monitor, 0, samples, 4, &count));
	CHECK_INT(count, 3);
	for (size_t i = 1; i < count; i++)
		CHECK_INT(samples[i].time_ns - samples[i - 1].time_ns, samples[i].interval_ns);
	OK(vg_monitor_info(monitor, &info));
	CHECK(info.sampling == 1 && info.virtual_gpus == 2 && info.history == 3 && info.interval_ms == 2);
	CHECK(info.cost_ns > 0 && info.longest_cost_ns >= info.cost_ns && info.total_cost_ns >= info.longest_cost_ns);
	OK(vg_monitor_close(monitor));
	OK(vg_monitor_close(monitor)); // closing a closed monitor succeeds
	unsigned readings = fake.readings;
	pause_ms(10);
	CHECK_INT(fake.readings, readings);
	// Samples stay readable after the close.
	OK(vg_monitor_sample(monitor, 1, &sample));
	OK(vg_monitor_info(monitor, &info));
	CHECK_INT(info.sampling, 0);
	vg_monitor_destroy(monitor);
}

TEST(the_sampling_clock_does_not_drift)
{
	static struct vg_sample samples[64];
	struct vg_monitor_info info;
	size_t count = 0;

	set_held(20, 40);
	struct vg_monitor *monitor = fake_monitor(64);
	pass_samples(monitor);
	pthread_mutex_lock(&fake.lock);
	fake.sleep_ms = 21; // one reading takes ten intervals
	pthread_mutex_unlock(&fake.lock);
	pass_samples(monitor);
	pass_samples(monitor);
	OK(vg_monitor_close(monitor));
	OK(vg_monitor_history(monitor, 0, samples, 64, &count));
	OK(vg_monitor_info(monitor, &info));
	CHECK(info.missed >= 8);
	CHECK(count > 5);
	// A sample's time minus its lateness is the time at which it was due. The due times must be multiples of the
	// interval (2 ms) apart.
	uint64_t first = samples[0].time_ns - samples[0].late_ns;
	for (size_t i = 1; i < count; i++)
		CHECK_INT((samples[i].time_ns - samples[i].late_ns - first) % 2000000, 0);
	vg_monitor_destroy(monitor);
}

TEST(new_and_closed_virtual_gpus_are_tracked)
{
	struct vg_sample sample;
	size_t count;

	set_held(20, 40);
	struct vg_monitor *monitor = fake_monitor(100);
	struct calls calls = {.monitor = monitor};
	watch_memory(monitor, VG_WATCH_ALL, 0.5, count_call, &calls);
	set_held(20, 70);
	pass_samples(monitor);
	CHECK(calls.beyond == 1 && calls.last_id == 4);
	set_readings((struct monitor_reading[]){reading_of(1, 11, 20), reading_of(3, 13, 30)}, 2);
	pass_samples(monitor);
	REFUSED(vg_monitor_sample(monitor, 4, &sample), VG_NOT_FOUND, "existing ids: 1, 3");
	OK(vg_monitor_sample(monitor, 3, &sample));
	CHECK(calls.beyond == 1 && calls.back == 0);
	// Virtual GPU 4 is closed, and another one gets the id 4. Its history and the state of the watch must start
	// again.
	set_readings((struct monitor_reading[]){reading_of(3, 13, 30), reading_of(4, 24, 80)}, 2);
	pass_samples(monitor);
	CHECK(calls.beyond == 2 && calls.back == 0);
	OK(vg_monitor_history(monitor, 4, NULL, 0, &count));
	CHECK(count < 6);
	set_readings((struct monitor_reading[]){reading_of(3, 13, 30), reading_of(4, 34, 80)},
		     2); // another virtual GPU gets the id 4 between two samples, so no sample is without an id 4
	pass_samples(monitor);
	CHECK(calls.beyond == 3 && calls.back == 0);
	set_readings(NULL, 0);
	pass_samples(monitor);
	REFUSED(vg_monitor_sample(monitor, 4, &sample), VG_NOT_FOUND, "existing ids: none");
	OK(vg_monitor_sample(monitor, 0, &sample));
	vg_monitor_destroy(monitor);
}

TEST(a_callback_runs_once_per_crossing)
{
	set_held(20, 20);
	struct vg_monitor *monitor = fake_monitor(10);
	struct calls calls = {.monitor = monitor};
	watch_memory(monitor, 1, 0.5, count_call, &calls);
	pass_samples(monitor);
	CHECK(calls.beyond == 0);
	for (unsigned round = 1; round <= 3; round++) {
		set_held(60, 20);
		pass_samples(monitor);
		CHECK(calls.beyond == round && calls.back == round - 1 && calls.last_value == 0.6);
		// Virtual GPU 1 uses less memory than the threshold of 0.5 again, but not so little that it counts as
		// back in range.
		set_held(45, 20);
		pass_samples(monitor);
		set_held(60, 20);
		pass_samples(monitor);
		CHECK(calls.beyond == round && calls.back == round - 1);
		set_held(40, 20);
		pass_samples(monitor);
		CHECK(calls.beyond == round && calls.back == round && calls.last_id == 1);
	}
	CHECK(!pthread_equal(calls.thread, pthread_self()));
	vg_monitor_destroy(monitor);
}

static void call_forbidden_functions(void *user, const struct vg_watch_event *event)
{
	struct calls *calls = user;
	struct vg_monitor_info info;
	char *text = NULL;

	calls->beyond++;
	calls->status = vg_monitor_close(calls->monitor);
	CHECK_CONTAINS(vg_last_error()->text, "closed by its own callback");
	vg_monitor_destroy(calls->monitor); // the monitor refuses to be destroyed in its own callback, too
	CHECK_INT(vg_last_error()->status, VG_STATE);
	// The monitor has locked nothing during the callback, so this call does not block.
	OK(vg_monitor_info(calls->monitor, &info));
	OK(vg_monitor_json(calls->monitor, &text));
	free(text);
	// A callback may remove its own watch.
	OK(vg_monitor_unwatch(calls->monitor, calls->watch));
	uint64_t other = watch_memory(calls->monitor, VG_WATCH_ALL, 0.9, count_call, calls);
	OK(vg_monitor_unwatch(calls->monitor, other));
}

TEST(a_callback_can_do_all_except_close_its_monitor)
{
	set_held(20, 20);
	struct vg_monitor *monitor = fake_monitor(10);
	struct calls calls = {.monitor = monitor}, later = {.monitor = monitor};
	calls.watch = watch_memory(monitor, 1, 0.5, call_forbidden_functions, &calls);
	watch_memory(monitor, 1, 0.5, count_call, &later);
	set_held(60, 20);
	pass_samples(monitor);
	CHECK_INT(calls.status, VG_STATE);
	set_held(20, 20);
	pass_samples(monitor);
	set_held(60, 20);
	pass_samples(monitor);
	// The callback has removed its watch, so it was called once.
	CHECK_INT(calls.beyond, 1);
	// The watch that was added later is still called.
	CHECK_INT(later.beyond, 2);
	vg_monitor_destroy(monitor);
}

static void linger(void *user, const struct vg_watch_event *event)
{
	struct calls *calls = user;

	calls->held = true;
	while (calls->hold)
		pause_ms(1);
	pause_ms(5);
	calls->back++;
	calls->held = false;
}

static void *let_go(void *user)
{
	struct calls *calls = user;

	pause_ms(10);
	calls->hold = false;
	return NULL;
}

TEST(unwatching_and_closing_wait_for_a_callback)
{
	for (int closing = 0; closing < 2; closing++) {
		pthread_t thread;
		set_held(20, 20);
		struct vg_monitor *monitor = fake_monitor(10);
		struct calls calls = {.monitor = monitor, .hold = true};
		calls.watch = watch_memory(monitor, 1, 0.5, linger, &calls);
		set_held(60, 20);
		while (!calls.held)
			pause_ms(1);
		CHECK_INT(pthread_create(&thread, NULL, let_go, &calls), 0);
		if (closing)
			OK(vg_monitor_close(monitor));
		else
			OK(vg_monitor_unwatch(monitor, calls.watch));
		CHECK(!calls.held && calls.back == 1);
		pthread_join(thread, NULL);
		vg_monitor_destroy(monitor);
	}
}

struct words {
	pthread_mutex_t lock;
	char text[8192];
	unsigned by_level[4];
};

static void note_message(void *user, enum vg_log_level level, const char *text)
{
	struct words *words = user;

	pthread_mutex_lock(&words->lock);
	words->by_level[level]++;
	size_t used = strlen(words->text);
	snprintf(words->text + used, sizeof words->text - used, "%d %s\n", level, text);
	pthread_mutex_unlock(&words->lock);
}

static bool has_said(struct words *words, const char *text)
{
	pthread_mutex_lock(&words->lock);
	bool said = strstr(words->text, text) != NULL;
	pthread_mutex_unlock(&words->lock);
	return said;
}

TEST(messages_follow_the_log_level)
{
	for (enum vg_log_level level = VG_LOG_ERROR; level <= VG_LOG_DEBUG; level++) {
		struct words words = {.lock = PTHREAD_MUTEX_INITIALIZER};
		struct monitor_reading failed = reading_of(1, 11, 20);
		failed.sample.status = VG_VIRTUAL_GPU_ERROR;
		set_held(20, 20);
		struct vg_monitor *monitor = fake_monitor(10);
		struct calls calls = {.monitor = monitor};
		pass_samples(monitor);
		vg_log_set(note_message, &words);
		OK(vg_monitor_set_log_level(monitor, level));
		watch_memory(monitor, VG_WATCH_ALL, 0.5, count_call, &calls);
		set_held(60, 20);
		pass_samples(monitor);
		set_readings(&failed, 1);
		pass_samples(monitor);
		set_fake_status(VG_CLOSED);
		for (int i = 0; i < 10000 && !has_said(&words, "sampling has ended"); i++)
			pause_ms(1);
		OK(vg_monitor_close(monitor));
		vg_log_set(NULL, NULL);
		CHECK_CONTAINS(words.text, "0 monitor: virtual GPU 1 (vgpu-1) is in error\n");
		CHECK_CONTAINS(words.text, "0 monitor: sampling has ended: the manager was closed\n");
		CHECK_INT(words.by_level[0], 2);
		CHECK_INT(words.by_level[1], level >= VG_LOG_WARNING);
		CHECK_INT(words.by_level[2], level >= VG_LOG_INFO ? 2 : 0);
		CHECK(level < VG_LOG_DEBUG ? words.by_level[3] == 0 : words.by_level[3] > 0);
		if (level >= VG_LOG_WARNING)
			CHECK_CONTAINS(words.text, "virtual GPU 1 (vgpu-1): memory_utilization is 0.6, above 0.5\n");
		if (level >= VG_LOG_INFO) {
			CHECK_CONTAINS(words.text, "memory_utilization is back at 0.2, no longer above 0.5\n");
			CHECK_CONTAINS(words.text, "virtual GPU 4 (vgpu-4) has gone\n");
		}
		vg_monitor_destroy(monitor);
	}
}

TEST(unknown_figures_are_null_in_json)
{
	char *text = NULL;

	set_held(20, 60);
	struct vg_monitor *monitor = fake_monitor(10);
	struct calls calls = {.monitor = monitor};
	watch_memory(monitor, VG_WATCH_ALL, 0.5, count_call, &calls);
	pass_samples(monitor);
	OK(vg_monitor_json(monitor, &text));
	json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_is_object(all));
	CHECK_INT(json_integer_value(json_object_get(all, "schema")), 1);
	CHECK_INT(json_integer_value(json_object_get(all, "interval_ms")), 2);
	CHECK(json_is_true(json_object_get(all, "sampling")));
	json_t *device = json_object_get(all, "device"),
	       *second = json_array_get(json_object_get(all, "virtual_gpus"), 1);
	CHECK(json_is_null(json_object_get(device, "memory_source")));
	CHECK_INT(json_object_size(json_object_get(device, "metrics")), VG_METRIC_COUNT);
	CHECK_STR(json_string_value(json_object_get(second, "name")), "vgpu-4");
	CHECK_STR(json_string_value(json_object_get(second, "status")), "running");
	json_t *metrics = json_object_get(second, "metrics");
	CHECK_INT(json_object_size(metrics), VG_METRIC_COUNT);
	CHECK_INT(json_integer_value(json_object_get(metrics, "memory_held")), 60);
	CHECK(json_real_value(json_object_get(metrics, "memory_utilization")) == 0.6);
	CHECK(json_is_null(json_object_get(metrics, "launches")));
	CHECK(json_is_null(json_object_get(metrics, "compute_utilization")));
	json_t *watch = json_array_get(json_object_get(all, "watches"), 0);
	CHECK_INT(json_integer_value(json_array_get(json_object_get(watch, "beyond"), 0)), 4);
	CHECK_STR(json_string_value(json_object_get(watch, "metric")), "memory_utilization");
	json_decref(all);
	free(text);
	vg_monitor_destroy(monitor);
}

TEST(invalid_input_is_refused)
{
	struct vg_manager *manager = (struct vg_manager *)&fake;
	struct vg_monitor_options options = {.size = sizeof options, .history = VG_MONITOR_MAX_HISTORY + 1};
	struct vg_watch watch = {.size = sizeof watch, .id = 9, .threshold = 1, .callback = count_call};
	struct vg_monitor *monitor = NULL;
	struct vg_sample sample;
	uint64_t number = 77;
	size_t count = 77;

	set_held(20, 60);
	REFUSED(vg_monitor_create(NULL, NULL, &monitor), VG_INVALID, "manager is NULL");
	REFUSED(vg_monitor_create(manager, NULL, NULL), VG_INVALID, "ret_monitor is NULL");
	REFUSED(vg_monitor_create(manager, &options, &monitor), VG_LIMIT,
		"a history of 100001 samples: at most 100000, which take");
	options = (struct vg_monitor_options){.size = sizeof options, .interval_ms = 3600001};
	REFUSED(vg_monitor_create(manager, &options, &monitor), VG_LIMIT, "an interval of 3600001 ms: at most 3600000");
	options = (struct vg_monitor_options){.size = sizeof options, .log_level = (enum vg_log_level)4};
	REFUSED(vg_monitor_create(manager, &options, &monitor), VG_INVALID, "log level 4");
	options = (struct vg_monitor_options){.size = 0};
	REFUSED(vg_monitor_create(manager, &options, &monitor), VG_INVALID, "size is 0");
	set_fake_status(VG_CLOSED);
	REFUSED(vg_monitor_create(manager, NULL, &monitor), VG_CLOSED, "the manager says so");
	CHECK(!monitor);
	set_fake_status(VG_OK);
	OK(vg_monitor_create(manager, NULL, &monitor));
	struct vg_monitor_info info;
	OK(vg_monitor_info(monitor, &info));
	// The options are NULL. The interval is that of the manager, and the history has the default length.
	CHECK(info.interval_ms == 5 && info.history == 600);
	REFUSED(vg_monitor_sample(monitor, 9, &sample), VG_NOT_FOUND, "no virtual GPU 9; existing ids: 1, 4");
	REFUSED(vg_monitor_sample(monitor, -1, &sample), VG_INVALID, "id -1");
	REFUSED(vg_monitor_sample(monitor, 1, NULL), VG_INVALID, "ret_sample is NULL");
	REFUSED(vg_monitor_sample(NULL, 1, &sample), VG_INVALID, "monitor is NULL");
	REFUSED(vg_monitor_history(monitor, 9, &sample, 1, &count), VG_NOT_FOUND, "virtual GPU 9");
	REFUSED(vg_monitor_history(monitor, 1, NULL, 1, &count), VG_INVALID, "samples is NULL");
	REFUSED(vg_monitor_history(monitor, 1, &sample, 1, NULL), VG_INVALID, "ret_count is NULL");
	REFUSED(vg_monitor_watch(monitor, &watch, &number), VG_NOT_FOUND, "virtual GPU 9");
	watch.id = -2;
	REFUSED(vg_monitor_watch(monitor, &watch, &number), VG_INVALID, "id -2");
	REFUSED(vg_monitor_watch(monitor, NULL, &number), VG_INVALID, "watch is NULL");
	REFUSED(vg_monitor_unwatch(monitor, 5), VG_NOT_FOUND, "no watch 5");
	REFUSED(vg_monitor_set_log_level(monitor, (enum vg_log_level) - 1), VG_INVALID, "log level -1");
	REFUSED(vg_monitor_json(monitor, NULL), VG_INVALID, "ret_text is NULL");
	REFUSED(vg_monitor_info(monitor, NULL), VG_INVALID, "ret_info is NULL");
	CHECK(number == 77 && count == 77);
	OK(vg_monitor_info(monitor, &info));
	CHECK_INT(info.watches, 0);
	OK(vg_monitor_close(monitor));
	watch.id = 1;
	REFUSED(vg_monitor_watch(monitor, &watch, &number), VG_CLOSED, "has been closed");
	vg_monitor_destroy(monitor);
	vg_monitor_destroy(NULL);
}

TEST(a_new_virtual_gpu_is_not_ready)
{
	struct vg_monitor_options options = {.size = sizeof options, .interval_ms = 10000};
	struct vg_monitor *monitor = NULL;
	struct vg_sample sample;
	uint64_t number = 0;

	set_held(20, 60);
	OK(vg_monitor_create((struct vg_manager *)&fake, &options, &monitor));
	set_readings((struct monitor_reading[]){reading_of(1, 11, 20), reading_of(2, 12, 20)}, 2);
	REFUSED(vg_monitor_sample(monitor, 2, &sample), VG_NOT_READY, "every 10000 ms");
	struct vg_watch watch = {.size = sizeof watch, .id = 2, .threshold = 1, .callback = count_call};
	OK(vg_monitor_watch(monitor, &watch, &number));
	// This returns at once, although the next sample is 10 s away.
	vg_monitor_destroy(monitor);
}

static void *use_in_thread(void *user)
{
	struct calls *calls = user;
	struct vg_sample samples[8];
	struct vg_monitor_info info;
	size_t count;

	for (int i = 0; i < 200; i++) {
		uint64_t number = watch_memory(calls->monitor, i % 2 ? VG_WATCH_ALL : 1, 0.5, count_call, calls);
		char *text = NULL;
		set_held(i % 3 * 30, i % 5 * 20);
		OK(vg_monitor_history(calls->monitor, 1, samples, 8, &count));
		OK(vg_monitor_json(calls->monitor, &text));
		free(text);
		OK(vg_monitor_info(calls->monitor, &info));
		OK(vg_monitor_unwatch(calls->monitor, number));
	}
	return NULL;
}

TEST(many_threads_use_one_monitor)
{
	pthread_t threads[4];

	set_held(20, 60);
	struct vg_monitor *monitor = fake_monitor(10);
	struct calls calls[4] = {
		{.monitor = monitor}, {.monitor = monitor}, {.monitor = monitor}, {.monitor = monitor}};
	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, use_in_thread, &calls[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	vg_monitor_destroy(monitor);
}
