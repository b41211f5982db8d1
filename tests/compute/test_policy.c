// Tests the order in which compute units run, and the shares of the GPU's time that they get, by measurements on the
// GPU.
#include "compute_test.h"

#include <math.h>
#include <stdbool.h>

enum { MOST = 2000 };

// Launches a kernel that keeps the whole device busy for a while, and then adds `id`, the number of its compute unit,
// to the log.
static void spin_note(struct rig *rig, struct vg_compute_unit *unit, unsigned rounds, unsigned id, int priority)
{
	struct vg_work work = {
		.size = sizeof work,
		.kernel = "spin_note",
		.config = {.grid = {1}, .block = {32}},
		.arguments = (struct vg_argument[]){VG_ARGUMENT(rounds), VG_ARGUMENT(id), VG_ARGUMENT(rig->log)},
		.argument_count = 3,
		.priority = priority};

	OK(vg_compute_unit_execute(unit, &work, NULL));
}

static struct rig rig_of(enum vg_compute_policy policy, unsigned slice_ms, int preemption)
{
	struct vg_compute_options options = {.size = sizeof options,
					     .policy = policy,
					     .placement = VG_PLACEMENT_TIME,
					     .time_slice_ms = slice_ms,
					     .preemption = preemption};

	return open_rig(&options);
}

// Returns the GPU time of `repeat` launches. This is the least of several measurements, because other processes use the
// machine, too.
static uint64_t least_time(struct vg_compute_unit *unit, unsigned rounds, unsigned repeat)
{
	struct vg_execution_info info;
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 4; i++) {
		struct vg_execution *one = spin(unit, 0, rounds, repeat);
		OK(vg_execution_wait(one, 60));
		OK(vg_execution_info(one, &info));
		vg_execution_destroy(one);
		if (info.gpu_ns_known && info.gpu_ns < least)
			least = info.gpu_ns;
	}
	return least;
}

// Returns how many rounds take about a millisecond on this machine.
static unsigned rounds_of_a_millisecond(struct rig *rig)
{
	struct vg_compute_unit *unit = unit_of(rig, "probe", 0.01);
	unsigned rounds = 2000;
	uint64_t ns;

	while ((ns = least_time(unit, rounds, 10)) < 8000000)
		rounds *= 2;
	vg_compute_unit_destroy(unit);
	return (unsigned)(10e6 * rounds / (double)ns) + 1;
}

// Pauses all compute units, so that the caller can queue all work first.
static void pause_all(struct vg_compute_unit **units, int count)
{
	for (int i = 0; i < count; i++)
		OK(vg_compute_unit_pause(units[i]));
}

static void resume_all(struct vg_compute_unit **units, int count)
{
	for (int i = 0; i < count; i++)
		OK(vg_compute_unit_resume(units[i]));
}

static unsigned changes(const unsigned *ids, unsigned count)
{
	unsigned changed = 0;

	for (unsigned i = 1; i < count; i++)
		changed += ids[i] != ids[i - 1];
	return changed;
}

// Measures which fraction of all SM-seconds each compute unit gets while all units have work.
static void measure(struct vg_compute_unit **units, int count, double seconds_, double *ret_parts)
{
	double before[8], sum = 0;

	pause_ms(50);
	for (int i = 0; i < count; i++)
		before[i] = info_of(units[i]).sm_seconds;
	pause_ms((unsigned)(1000 * seconds_));
	for (int i = 0; i < count; i++) {
		struct vg_compute_unit_info info = info_of(units[i]);
		if (!info.queue_length)
			SKIP("this machine is too fast for the load: nothing was left to compete for");
		sum += ret_parts[i] = info.sm_seconds - before[i];
	}
	for (int i = 0; i < count; i++)
		ret_parts[i] /= sum;
}

static bool are_near(const double *parts, const double *shares, int count, double tolerance)
{
	for (int i = 0; i < count; i++)
		if (fabs(parts[i] - shares[i]) >= tolerance)
			return false;
	return true;
}

// Measures in up to five windows of time. Returns true as soon as the compute units get their shares in one window, or
// on average over all windows so far.
// A single window may fail, because an interrupted kernel takes many times its usual time. Units that do not get their
// shares fail in all windows.
static bool shares_hold(struct vg_compute_unit **units, int count, const double *shares, double tolerance)
{
	double parts[8], sums[8] = {0}, means[8];

	for (int window = 0; window < 5; window++) {
		measure(units, count, 1, parts);
		printf("  SM-seconds:");
		for (int i = 0; i < count; i++) {
			printf(" %.3f", parts[i]);
			sums[i] += parts[i];
			means[i] = sums[i] / (window + 1);
		}
		printf("\n");
		if (are_near(parts, shares, count, tolerance) || are_near(means, shares, count, tolerance))
			return true;
	}
	return false;
}

// Returns whether part() is between `low` and `high` in one of three attempts. A single attempt may fail, if a kernel
// is interrupted.
static bool one_of_three(double (*part)(void), double low, double high)
{
	for (int attempt = 0; attempt < 3; attempt++) {
		double had = part();
		if (had > low && had < high)
			return true;
	}
	return false;
}

static void load(struct rig *rig, struct vg_compute_unit *unit, unsigned rounds, unsigned launches)
{
	vg_address nowhere = 0;

	(void)rig;
	for (unsigned i = 0; i < launches; i++)
		OK(try_launch(unit, "spin", 0, 20, (struct vg_argument[]){VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)}, 2,
			      NULL));
}

TEST(weighted_fair_follows_the_shares)
{
	struct rig rig = rig_of(VG_COMPUTE_WEIGHTED_FAIR, 0, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *units[] = {unit_of(&rig, "a", 0.5), unit_of(&rig, "b", 0.3), unit_of(&rig, "c", 0.2)};
	const double shares[] = {0.5, 0.3, 0.2}, later[] = {0.2, 0.3, 0.5};

	load(&rig, units[0], ms / 5 + 1, 20000);
	load(&rig, units[1], ms, 4000);
	load(&rig, units[2], 5 * ms, 1000);
	CHECK(shares_hold(units, 3, shares, 0.03));
	// Changes shares while the work runs: the next second follows the new shares.
	OK(vg_compute_unit_set_share(units[0], 0.2));
	OK(vg_compute_unit_set_share(units[2], 0.5));
	CHECK(shares_hold(units, 3, later, 0.03));
	for (int i = 0; i < 3; i++)
		vg_compute_unit_destroy(units[i]);
	close_rig(&rig);
}

TEST(weighted_fair_interleaves)
{
	struct rig rig = rig_of(VG_COMPUTE_WEIGHTED_FAIR, 0, 0);
	unsigned ms = rounds_of_a_millisecond(&rig), ids[MOST], counts[2] = {0};
	struct vg_compute_unit *units[] = {unit_of(&rig, "a", 0.5), unit_of(&rig, "b", 0.5)};

	for (unsigned i = 0; i < 100; i++)
		for (unsigned u = 0; u < 2; u++)
			spin_note(&rig, units[u], ms, u, 0);
	for (int u = 0; u < 2; u++)
		OK(vg_compute_unit_sync_all(units[u], 60));
	unsigned count = read_log(&rig, ids, MOST);
	CHECK_INT(count, 200);
	// Neither compute unit may finish long before the other one. So both must have had about half of the first 100
	// kernels.
	for (unsigned i = 0; i < 100; i++)
		counts[ids[i]]++;
	printf("  of the first 100: %u and %u; %u changes\n", counts[0], counts[1], changes(ids, count));
	CHECK(counts[0] >= 25 && counts[1] >= 25);
	CHECK(changes(ids, count) >= 3);
	for (int u = 0; u < 2; u++)
		vg_compute_unit_destroy(units[u]);
	close_rig(&rig);
}

// Measures the fraction of the GPU time that one of two compute units gets in the next second. Destroys both units and
// the rig.
static double part_of_a_second(struct rig *rig, struct vg_compute_unit *units[2], int which)
{
	double parts[2];

	measure(units, 2, 1, parts);
	printf("  SM-seconds: %.3f %.3f\n", parts[0], parts[1]);
	for (int u = 0; u < 2; u++)
		vg_compute_unit_destroy(units[u]);
	close_rig(rig);
	return parts[which];
}

// Measures the fraction of the GPU time that a compute unit gets in the second after it was idle. It should be half. If
// idle time counted as credit, it would be at least four fifths.
static double part_after_idling(void)
{
	struct rig rig = rig_of(VG_COMPUTE_WEIGHTED_FAIR, 0, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *units[] = {unit_of(&rig, "busy", 0.5), unit_of(&rig, "idle", 0.5)};

	load(&rig, units[0], ms, 10000);
	pause_ms(800); // only the other compute unit has work
	CHECK(info_of(units[1]).sm_seconds == 0);
	load(&rig, units[1], ms, 10000);
	return part_of_a_second(&rig, units, 1);
}

TEST(idle_time_earns_no_claim)
{
	CHECK(one_of_three(part_after_idling, 0.3, 0.7));
}

// Measures the fraction of the GPU time that a compute unit gets in the second after a pause. It should be half. If the
// pause counted as credit, the unit would get all the time.
static double part_after_a_pause(void)
{
	struct rig rig = rig_of(VG_COMPUTE_WEIGHTED_FAIR, 0, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *units[] = {unit_of(&rig, "busy", 0.5), unit_of(&rig, "paused", 0.5)};

	OK(vg_compute_unit_pause(units[1]));
	load(&rig, units[1], ms, 10000);
	load(&rig, units[0], ms, 10000);
	pause_ms(1500);
	CHECK(info_of(units[1]).sm_seconds == 0);
	OK(vg_compute_unit_resume(units[1]));
	return part_of_a_second(&rig, units, 1);
}

TEST(a_pause_earns_no_claim)
{
	CHECK(one_of_three(part_after_a_pause, 0.3, 0.7));
}

TEST(cancelled_work_needs_no_turn)
{
	struct rig rig = rig_of(VG_COMPUTE_PRIORITY, 10, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *low = unit_of(&rig, "low", 0.3), *closed = unit_of(&rig, "closed", 0.3),
			       *high = unit_of(&rig, "high", 0.4);
	struct vg_execution *cancelled = spin(low, 0, ms, 100000), *rest = spin(closed, 0, ms, 100000);

	while (vg_execution_state(cancelled) == VG_EXECUTION_QUEUED || vg_execution_state(rest) == VG_EXECUTION_QUEUED)
		pause_ms(1);
	OK(vg_compute_unit_set_priority(high, 5));
	load(&rig, high, ms, 10000);
	uint64_t before = info_of(high).launches;
	while (info_of(high).launches < before + 40)
		pause_ms(1);
	uint64_t launches = info_of(low).launches;
	OK(vg_execution_cancel(cancelled));
	CHECK_INT(vg_execution_wait(cancelled, 30), VG_STATE);
	OK(vg_compute_unit_end(closed));
	CHECK_INT(vg_execution_state(rest), VG_EXECUTION_CANCELLED);
	CHECK_INT(info_of(low).launches, launches); // the paused compute unit has launched nothing
	CHECK(info_of(high).queue_length > 0);
	vg_execution_destroy(cancelled);
	vg_execution_destroy(rest);
	vg_compute_unit_destroy(high);
	vg_compute_unit_destroy(closed);
	vg_compute_unit_destroy(low);
	close_rig(&rig);
}

// Runs three compute units with 150 kernels each, which should take turns in a fixed order. Returns the average number
// of changes of the running unit in a time slice (20 ms of GPU time). Returns 0 if the order was wrong, as happens when
// the host stops a thread for long.
static double changes_in_a_time_slice(void)
{
	struct rig rig = rig_of(VG_COMPUTE_ROUND_ROBIN, 20, 0);
	unsigned ms = rounds_of_a_millisecond(&rig), ids[MOST];
	struct vg_compute_unit *units[] = {unit_of(&rig, "a", 0.7), unit_of(&rig, "b", 0.2), unit_of(&rig, "c", 0.1)};

	pause_all(units, 3);
	for (unsigned i = 0; i < 150; i++)
		for (unsigned u = 0; u < 3; u++)
			spin_note(&rig, units[u], ms, u, 0);
	resume_all(units, 3);
	uint64_t busy_ns = 0;
	for (int u = 0; u < 3; u++) {
		OK(vg_compute_unit_sync_all(units[u], 60));
		busy_ns += info_of(units[u]).busy_ns;
	}
	unsigned count = read_log(&rig, ids, MOST), turns = changes(ids, count);
	double slices = (double)busy_ns / 20e6;
	CHECK_INT(count, 450);
	printf("  %u changes in %u kernels; %.0f time slices\n", turns, count, slices);
	unsigned in_order = 0;
	for (unsigned i = 1; i < count; i++)
		in_order += ids[i] != ids[i - 1] && ids[i] == (ids[i - 1] + 1) % 3;
	bool is_in_order = turns >= 3 && in_order * 10 >= turns * 8;
	for (int u = 0; u < 3; u++)
		vg_compute_unit_destroy(units[u]);
	close_rig(&rig);
	return is_in_order ? turns / slices : 0;
}

TEST(round_robin_alternates)
{
	// Ideally the unit changes once in a time slice. An interrupted kernel takes many time slices, but counts as
	// one turn, so there is a tolerance.
	CHECK(one_of_three(changes_in_a_time_slice, 1.0 / 3, 3));
}

TEST(round_robin_ignores_shares)
{
	struct rig rig = rig_of(VG_COMPUTE_ROUND_ROBIN, 20, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *units[] = {unit_of(&rig, "a", 0.7), unit_of(&rig, "b", 0.2), unit_of(&rig, "c", 0.1)};

	for (int u = 0; u < 3; u++)
		load(&rig, units[u], ms, 10000);
	CHECK(shares_hold(units, 3, (double[]){1.0 / 3, 1.0 / 3, 1.0 / 3}, 0.05));
	for (int u = 0; u < 3; u++)
		vg_compute_unit_destroy(units[u]);
	close_rig(&rig);
}

// Changes the policy from equal turns to weighted fair sharing. Measures the fraction of the time that the unit with a
// share of three quarters gets in the first second. If earlier turns counted as debts, it would get all the time.
static double part_after_a_change(void)
{
	struct rig rig = rig_of(VG_COMPUTE_ROUND_ROBIN, 1000, 0);
	unsigned ms = rounds_of_a_millisecond(&rig);
	struct vg_compute_unit *units[] = {unit_of(&rig, "a", 0.75), unit_of(&rig, "b", 0.25)};

	for (int u = 0; u < 2; u++)
		load(&rig, units[u], ms, 10000);
	OK(vg_compute_set_time_slice(rig.compute, 10));
	// time slices of a second would be too coarse for this tolerance
	CHECK(shares_hold(units, 2, (double[]){0.5, 0.5}, 0.05));
	OK(vg_compute_set_policy(rig.compute, VG_COMPUTE_WEIGHTED_FAIR));
	return part_of_a_second(&rig, units, 0);
}

TEST(policy_and_time_slice_change_under_load)
{
	CHECK(one_of_three(part_after_a_change, 0.6, 0.9));
}

TEST(the_highest_priority_runs_first)
{
	struct rig rig = rig_of(VG_COMPUTE_PRIORITY, 10, 1);
	unsigned ms = rounds_of_a_millisecond(&rig), ids[MOST], first = MOST, last = 0;
	struct vg_compute_unit *units[] = {unit_of(&rig, "low", 0.5), unit_of(&rig, "high", 0.5)};

	OK(vg_compute_unit_set_priority(units[1], 5));
	CHECK_INT(info_of(units[1]).priority, 5);
	for (unsigned i = 0; i < 200; i++)
		spin_note(&rig, units[0], ms, 0, 0);
	while (!info_of(units[0]).completed)
		pause_ms(1);
	// queue all urgent work at once, so that its queue does not become empty between two launches on a slow host
	OK(vg_compute_unit_pause(units[1]));
	for (unsigned i = 0; i < 40; i++)
		spin_note(&rig, units[1], ms, 1, 0);
	OK(vg_compute_unit_resume(units[1]));
	for (int u = 0; u < 2; u++)
		OK(vg_compute_unit_sync_all(units[u], 60));
	unsigned count = read_log(&rig, ids, MOST);
	CHECK_INT(count, 240);
	for (unsigned i = 0; i < count; i++) {
		first = ids[i] && i < first ? i : first;
		last = ids[i] ? i : last;
	}
	printf("  of 240 the urgent 40 were %u to %u\n", first, last);
	// no other kernel ran between two urgent ones, but some ran before and after them
	CHECK(first > 0 && last - first == 39);
	CHECK(last < 239);
	for (int u = 0; u < 2; u++)
		vg_compute_unit_destroy(units[u]);
	close_rig(&rig);
}

TEST(urgent_work_overtakes_other_streams_of_its_unit)
{
	struct rig rig = open_rig(NULL);
	struct vg_compute_unit *unit = unit_of(&rig, NULL, 1);
	unsigned ids[8];

	OK(vg_compute_unit_pause(unit));
	vg_execution_destroy(note(&rig, unit, 0, 1, 0));
	vg_execution_destroy(note(&rig, unit, 1, 2, 7));
	vg_execution_destroy(note(&rig, unit, 1, 3, 0));
	CHECK_INT(info_of(unit).priority, 7);
	CHECK_INT(info_of(unit).active_streams, 2);
	OK(vg_compute_unit_resume(unit));
	OK(vg_compute_unit_sync_all(unit, 20));
	CHECK_INT(read_log(&rig, ids, 8), 3);
	vg_compute_unit_destroy(unit);
	close_rig(&rig);
}
