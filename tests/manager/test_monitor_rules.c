// Tests parts of the monitor without its thread: thresholds that are crossed, the clock, the history, and names.
#include "core/core_test.h"

#include "manager/monitor.h"

#include <math.h>

TEST(crossings_follow_threshold_and_hysteresis)
{
	static const struct {
		enum vg_watch_side side;
		double threshold, hysteresis, value;
		bool known, beyond;
		enum monitor_crossing crossing;
	} rows[] = {
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.80, true, false, MONITOR_STAYS},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.81, true, false, MONITOR_GOES_BEYOND},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.99, true, true, MONITOR_STAYS},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.75, true, true, MONITOR_STAYS},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.70, true, true, MONITOR_COMES_BACK},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.10, true, false, MONITOR_STAYS},
		{VG_WATCH_ABOVE, 0.8, 0.0, 0.80, true, true, MONITOR_COMES_BACK},
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.99, false, false, MONITOR_STAYS}, // the value is unknown
		{VG_WATCH_ABOVE, 0.8, 0.1, 0.00, false, true, MONITOR_STAYS},
		{VG_WATCH_BELOW, 0.2, 0.1, 0.20, true, false, MONITOR_STAYS},
		{VG_WATCH_BELOW, 0.2, 0.1, 0.19, true, false, MONITOR_GOES_BEYOND},
		{VG_WATCH_BELOW, 0.2, 0.1, 0.25, true, true, MONITOR_STAYS},
		// Rounding must not matter: the value 1.0 is at the threshold plus the hysteresis, although 1 - 0.9 is
		// not exactly 0.1.
		{VG_WATCH_BELOW, 0.9, 0.1, 1.00, true, true, MONITOR_COMES_BACK},
		{VG_WATCH_BELOW, 0.2, 0.1, 0.90, true, false, MONITOR_STAYS},
		{VG_WATCH_ABOVE, 3e9, 1e9, 2e9, true, true, MONITOR_COMES_BACK},
		{VG_WATCH_ABOVE, 0, 0, 1, true, false, MONITOR_GOES_BEYOND},
		{VG_WATCH_ABOVE, 0, 0, 0, true, true, MONITOR_COMES_BACK},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct vg_watch watch = {
			.side = rows[i].side, .threshold = rows[i].threshold, .hysteresis = rows[i].hysteresis};
		struct vg_metric metric = {rows[i].value, rows[i].known};
		enum monitor_crossing got = monitor_cross(&watch, rows[i].beyond, metric);
		if (got != rows[i].crossing)
			FAIL("row %zu: %d, not %d", i, got, rows[i].crossing);
	}
}

static void nothing(void *user, const struct vg_watch_event *event)
{
}

TEST(impossible_thresholds_are_refused)
{
	static const struct {
		enum vg_metric_name metric;
		enum vg_watch_side side;
		double threshold, hysteresis;
		const char *why; // part of the error; NULL: the watch is valid
	} rows[] = {
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 0.8, 0.1, NULL},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_BELOW, 0.9, 0.1, NULL},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 1.5, 0,
		 "a threshold of 1.5: memory_utilization is from 0"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, -0.1, 0, "a threshold of -0.1"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 1, 0, "never above 1"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_BELOW, 0, 0, "never below 0"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 0.3, 0.4, "a hysteresis of 0.4: at most 0.3"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_BELOW, 0.7, 0.4, "a hysteresis of 0.4: at most 0.3"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 0.3, -0.1, "a hysteresis of -0.1"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, NAN, 0, "a threshold of nan"},
		{VG_METRIC_MEMORY_UTILIZATION, VG_WATCH_ABOVE, 0.5, INFINITY, "a hysteresis of inf"},
		{VG_METRIC_QUEUE_LENGTH, VG_WATCH_ABOVE, 1000, 100, NULL},
		{VG_METRIC_QUEUE_LENGTH, VG_WATCH_BELOW, 1000, 1e9, NULL},
		{VG_METRIC_QUEUE_LENGTH, VG_WATCH_ABOVE, INFINITY, 0, "a threshold of inf"},
		{VG_METRIC_COUNT, VG_WATCH_ABOVE, 0.5, 0, "metric 15: there are 0 to 14"},
		{(enum vg_metric_name) - 1, VG_WATCH_ABOVE, 0.5, 0, "metric -1"},
		{VG_METRIC_RUNNING, (enum vg_watch_side)2, 0.5, 0, "side 2"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct vg_watch watch = {.size = sizeof watch,
					 .metric = rows[i].metric,
					 .side = rows[i].side,
					 .threshold = rows[i].threshold,
					 .hysteresis = rows[i].hysteresis,
					 .callback = nothing};
		if (rows[i].why)
			REFUSED(monitor_watch_check(&watch), VG_INVALID, rows[i].why);
		else
			OK(monitor_watch_check(&watch));
	}
	struct vg_watch mute = {.size = sizeof mute, .threshold = 1};
	REFUSED(monitor_watch_check(&mute), VG_INVALID, "no callback");
}

TEST(samples_are_due_at_multiples_of_the_interval)
{
	static const struct {
		uint64_t planned, now, next, missed;
	} rows[] = {
		{1000, 1000, 1100, 0},
		{1000, 1099, 1100, 0},
		{1000, 1100, 1100, 0}, // the sample is a whole interval late, so the next one is due at once
		{1000, 1199, 1100, 0},
		{1000, 1200, 1200, 1},
		{1000, 1950, 1900, 8},
		// An early sample does not change the time of the next one.
		{1000, 900, 1100, 0},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint64_t missed = 0;
		CHECK_INT(monitor_next(rows[i].planned, 100, rows[i].now, &missed), rows[i].next);
		CHECK_INT(missed, rows[i].missed);
	}
}

TEST(the_history_is_a_ring)
{
	struct monitor_reading reading = {.sample = {.id = 7}, .serial = 1};
	struct vg_sample samples[8];

	for (size_t capacity = 1; capacity <= 4; capacity++) {
		struct monitor_series *series = monitor_series_create(&reading, capacity);
		CHECK(!monitor_series_latest(series));
		CHECK_INT(monitor_series_copy(series, samples, 8), 0);
		for (uint64_t now = 1; now <= 9; now++) {
			monitor_series_add(series, &reading, now, now);
			CHECK_INT(monitor_series_latest(series)->time_ns, now);
			size_t want = now < capacity ? now : capacity;
			CHECK_INT(monitor_series_copy(series, samples, 8), want);
			for (size_t i = 0; i < want; i++)
				CHECK_INT(samples[i].time_ns, now - want + 1 + i);
			// If the buffer has room for one sample, the latest one is copied.
			CHECK_INT(monitor_series_copy(series, samples, 1), 1);
			CHECK_INT(samples[0].time_ns, now);
		}
		monitor_series_destroy(series);
	}
}

TEST(rates_cover_the_time_between_samples)
{
	struct monitor_reading reading = {.sample = {.id = 1, .launches = {10, 1}}, .busy_known = true, .busy_ns = 500};
	// The history has room for one sample, which each new one overwrites. The rates still need the previous sample.
	struct monitor_series *series = monitor_series_create(&reading, 1);

	monitor_series_add(series, &reading, 1000000000, 999999000);
	struct vg_sample sample = *monitor_series_latest(series);
	CHECK_INT(sample.late_ns, 1000);
	CHECK_INT(sample.interval_ns, 0);
	CHECK(!sample.launch_rate.known && !sample.compute_utilization.known && !sample.failure_rate.known);
	CHECK(sample.launches.known);

	reading.sample.launches.value = 60;
	reading.busy_ns += 125000000;
	monitor_series_add(series, &reading, 1500000000, 1500000000);
	sample = *monitor_series_latest(series);
	CHECK_INT(sample.interval_ns, 500000000);
	CHECK(sample.launch_rate.known && sample.launch_rate.value == 100);
	CHECK(sample.compute_utilization.known && sample.compute_utilization.value == 0.25);
	CHECK(!sample.failure_rate.known); // there is no rate, since no reading had a known number of failures

	// A quantum of 2 s counts completely at its end, although the sample covers only 1 s. The utilization is at
	// most 1.
	reading.busy_ns += 2000000000;
	monitor_series_add(series, &reading, 2500000000, 2500000000);
	CHECK(monitor_series_latest(series)->compute_utilization.value == 1);

	reading.busy_known = false;
	reading.sample.launches.known = 0;
	monitor_series_add(series, &reading, 3500000000, 3500000000);
	CHECK(!monitor_series_latest(series)->compute_utilization.known);
	CHECK(!monitor_series_latest(series)->launch_rate.known);
	// The previous value is unknown, so no utilization can be computed.
	reading.busy_known = true;
	monitor_series_add(series, &reading, 4500000000, 4500000000);
	CHECK(!monitor_series_latest(series)->compute_utilization.known);
	monitor_series_destroy(series);
}

TEST(metrics_have_names)
{
	CHECK_STR(vg_metric_text(VG_METRIC_MEMORY_HELD), "memory_held");
	CHECK_STR(vg_metric_text(VG_METRIC_VIRTUAL_GPUS), "virtual_gpus");
	CHECK_STR(vg_metric_text(VG_METRIC_COUNT), "unknown metric");
	CHECK_STR(vg_metric_text((enum vg_metric_name) - 1), "unknown metric");
	struct vg_sample sample = {.failure_rate = {3, 1}, .memory_held = {5, 1}};
	CHECK(monitor_metric(&sample, VG_METRIC_FAILURE_RATE)->value == 3);
	CHECK(monitor_metric(&sample, VG_METRIC_MEMORY_HELD)->value == 5);
}
