// Checks the samples that the daemon keeps of the last hour: their order, and the largest size of an answer about all
// vGPUs and GPUs. Runs without a daemon; the figures and the clock are stand-ins.
#include "base/clock.h"
#include "daemon/arbiter.h"
#include "daemon/eviction.h"
#include "daemon/history.h"
#include "daemon/listing.h"
#include "daemon/node.h"
#include "test.h"

#include <stdlib.h>

enum { DEVICES = 2, MOST_VGPUS = HISTORY_VGPUS + 50 };

static struct vgpu vgpus[MOST_VGPUS];
static struct node node;
static uint64_t now_ns = 1, number; // `number` is the number of the latest sample

// ---- stand-ins -------------------------------------------------------------------------------------------

uint64_t vg_clock_realtime_ns(void)
{
	return now_ns;
}

bool arbiter_read(const struct vgpu *vgpu, struct arbiter_report *ret_report)
{
	(void)vgpu;
	(void)ret_report;
	return false;
}

bool eviction_concerns(const struct tenant *tenant)
{
	(void)tenant;
	return false;
}

void eviction_read_slot(const struct vgpu *vgpu, unsigned int slot, struct eviction *ret_eviction)
{
	(void)vgpu;
	(void)slot;
	*ret_eviction = (struct eviction){0};
}

bool listing_physical(const struct node *of, const struct vgpu *vgpu, uint64_t *ret_bytes)
{
	(void)of;
	(void)vgpu;
	(void)ret_bytes;
	return false;
}

size_t vg_system_device_count(const struct vg_system *system)
{
	(void)system;
	return DEVICES;
}

int vg_system_memory_used(struct vg_system *system, size_t index, uint64_t *ret_used)
{
	(void)system;
	*ret_used = number * 10 + index;
	return 0;
}

// Stands in for the ledger: returns another value for each sample, so that the test can recognise a sample.
uint64_t vg_ledger_charged(const struct vg_ledger *ledger)
{
	(void)ledger;
	return number;
}

uint64_t vg_ledger_refusal_count(const struct vg_ledger *ledger)
{
	(void)ledger;
	return 0;
}

// ---- helpers ---------------------------------------------------------------------------------------------

static void use_vgpus(int count)
{
	node.vgpus = count ? &vgpus[0] : NULL;
	for (int i = 0; i < count; i++) {
		snprintf(vgpus[i].name, sizeof vgpus[i].name, "v%d", i);
		vgpus[i].next = i + 1 < count ? &vgpus[i + 1] : NULL;
	}
}

static void take_samples(int count)
{
	uint64_t deadline = 0;

	for (int i = 0; i < count; i++) {
		number++;
		now_ns += HISTORY_EVERY_S * UINT64_C(1000000000);
		history_keep(&node, now_ns, &deadline);
	}
}

// Checks that all arrays of a series have the same length, and end with the newest sample. Returns their length.
static size_t check_series(const json_t *series)
{
	static const char *const names[] = {"charged", "physical", "in_host", "gpu_ns", "waited_ns", "refusals"};
	const json_t *charged = json_object_get(series, "charged");
	json_int_t first = json_integer_value(json_object_get(series, "first"));
	size_t count = json_array_size(json_object_get(series, "times"));

	CHECK_INT(first + (json_int_t)count, (json_int_t)number + 1);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK_INT(json_array_size(json_object_get(series, names[i])), count);
	// vg_ledger_charged() above returns the number of the sample, so a vGPU's values must be consecutive numbers. A
	// GPU's values are sums over its vGPUs, so they are not checked.
	for (size_t i = 0; i < count && json_is_string(json_object_get(series, "vgpu")); i++)
		CHECK_INT(json_integer_value(json_array_get(charged, i)), first + (json_int_t)i);
	return count;
}

// Checks that the answer has that many series, all with the same number of samples. Returns the number of samples.
static size_t check_answer(const struct history_query *query, size_t series_count)
{
	json_t *answer = history_list(&node, query), *series, *one;
	size_t i, count = 0;

	series = json_object_get(answer, "series");
	CHECK_INT(json_array_size(series), series_count);
	CHECK_INT(json_integer_value(json_object_get(answer, "last")), number);
	json_array_foreach(series, i, one) {
		size_t samples = check_series(one);
		CHECK(i == 0 || samples == count);
		count = samples;
	}
	json_decref(answer);
	return count;
}

// ---- tests -----------------------------------------------------------------------------------------------

TEST(the_answer_about_all_is_bounded)
{
	// vGPUs of earlier rounds keep their samples, so each round must have more vGPUs than the one before.
	static const int counts[] = {1, 5, 6, 30, HISTORY_VGPUS, MOST_VGPUS};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		size_t series = (size_t)(counts[i] < HISTORY_VGPUS ? counts[i] : HISTORY_VGPUS) + DEVICES;
		use_vgpus(counts[i]);
		take_samples(HISTORY_SAMPLES + 5);
		size_t count = check_answer(&(struct history_query){0}, series);
		if (count * series > HISTORY_ANSWER)
			FAIL("%zu samples of %d vGPUs", count * series, counts[i]);
		// The answer must not be shorter than its limit requires: one more sample of each series would exceed
		// the limit.
		if (count < HISTORY_SAMPLES && (count + 1) * (series + 1) <= HISTORY_ANSWER)
			FAIL("only %zu samples each of %d vGPUs", count, counts[i]);
		CHECK_INT(check_answer(&(struct history_query){.most = HISTORY_SAMPLES}, series), count);
		CHECK_INT(check_answer(&(struct history_query){.most = 1000000}, series), count);
		CHECK_INT(check_answer(&(struct history_query){.most = 3}, series), 3);
		CHECK_INT(check_answer(&(struct history_query){.after = number - 2}, series), 2);
		CHECK_INT(check_answer(&(struct history_query){.after = number}, series), 0);
		CHECK_INT(check_answer(&(struct history_query){.after = 1}, series), count);
	}
}

TEST(the_answer_about_one_vgpu_has_an_hour)
{
	use_vgpus(MOST_VGPUS);
	take_samples(HISTORY_SAMPLES);
	CHECK_INT(check_answer(&(struct history_query){.vgpu = &vgpus[7]}, 1), HISTORY_SAMPLES);
	CHECK_INT(check_answer(&(struct history_query){.vgpu = &vgpus[7], .most = 1000000}, 1), HISTORY_SAMPLES);
	CHECK_INT(check_answer(&(struct history_query){.vgpu = &vgpus[7], .most = 5}, 1), 5);
	// A vGPU beyond the limit has no samples.
	CHECK_INT(check_answer(&(struct history_query){.vgpu = &vgpus[HISTORY_VGPUS]}, 0), 0);
}

TEST(a_new_vgpu_has_the_samples_since_it_was_created)
{
	uint64_t deadline = 0;

	// An unused daemon takes no samples.
	use_vgpus(0);
	history_keep(&node, now_ns += 3600000000000u, &deadline);
	CHECK_INT(deadline, 0);
	free(vgpus[0].history);
	vgpus[0].history = NULL;
	use_vgpus(1);
	take_samples(4);
	CHECK_INT(check_answer(&(struct history_query){.vgpu = &vgpus[0]}, 1), 4);
}
