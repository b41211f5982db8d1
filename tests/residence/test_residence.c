#include <string.h>

#include "residence/residence.h"
#include "test.h"

#define GIB (UINT64_C(1) << 30)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static const uint64_t capacity = 79 * GIB;

static struct residence_vgpu make_vgpu(uint64_t memory, enum residence_state state)
{
	return (struct residence_vgpu){.memory = memory, .fixed = 2 * GIB, .state = state};
}

static void set_waiting(struct residence_vgpu *vgpu, uint64_t since)
{
	vgpu->wants = true;
	vgpu->wants_since_ns = since;
}

TEST(memory_of_all)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_OUT), make_vgpu(40 * GIB, RESIDENCE_OUT),
					 make_vgpu(GIB, RESIDENCE_OUT)};

	CHECK_INT(residence_most(vgpus, 3), 101 * GIB);
}

TEST(all_are_in_if_they_fit)
{
	struct residence_vgpu vgpus[] = {make_vgpu(40 * GIB, RESIDENCE_OUT), make_vgpu(39 * GIB, RESIDENCE_LEAVING)};

	CHECK_INT(residence_decide(vgpus, 2, capacity, SECOND), UINT64_MAX);
	CHECK(!vgpus[0].out && !vgpus[1].out);
	vgpus[1].is_suspended = true;
	residence_decide(vgpus, 2, capacity, SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out);
}

TEST(idle_time_orders_out_although_all_fit)
{
	struct residence_vgpu vgpus[] = {make_vgpu(40 * GIB, RESIDENCE_IN), make_vgpu(20 * GIB, RESIDENCE_IN)};

	vgpus[0].idle_ns = 30 * SECOND;
	vgpus[0].in_since_ns = 5 * SECOND;
	vgpus[0].active_ns = 10 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, 39 * SECOND), 40 * SECOND);
	CHECK(!vgpus[0].out && !vgpus[1].out);
	vgpus[0].busy_until_ns = 42 * SECOND; // its last move to the host failed; the next attempt is at 42 s
	CHECK_INT(residence_decide(vgpus, 2, capacity, 41 * SECOND), 42 * SECOND);
	CHECK(!vgpus[0].out);
	CHECK_INT(residence_decide(vgpus, 2, capacity, 42 * SECOND), UINT64_MAX);
	CHECK(vgpus[0].out && !vgpus[1].out);
	// Once ordered out, the vGPU stays out until one of its threads waits for the memory.
	vgpus[0].state = RESIDENCE_LEAVING;
	residence_decide(vgpus, 2, capacity, 43 * SECOND);
	CHECK(vgpus[0].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 2, capacity, 100 * SECOND);
	CHECK(vgpus[0].out);
	set_waiting(&vgpus[0], 101 * SECOND);
	residence_decide(vgpus, 2, capacity, 101 * SECOND);
	CHECK(!vgpus[0].out && !vgpus[1].out);
}

TEST(nothing_moves_without_a_waiting_thread)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_IN), make_vgpu(60 * GIB, RESIDENCE_OUT)};

	CHECK_INT(residence_decide(vgpus, 2, capacity, 1000 * SECOND), UINT64_MAX);
	CHECK(!vgpus[0].out && vgpus[1].out);
}

TEST(idle_vgpu_leaves_at_once_busy_one_after_quantum)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_IN), make_vgpu(60 * GIB, RESIDENCE_OUT)};
	uint64_t now = 100 * SECOND;

	set_waiting(&vgpus[1], now);
	vgpus[0].in_since_ns = 10 * SECOND;
	vgpus[0].active_ns = 98 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), UINT64_MAX);
	CHECK(vgpus[0].out && vgpus[1].out);
	// A vGPU that is in use may stay for five seconds, or for ten times the duration of its last move.
	vgpus[0].in_since_ns = now - 2 * SECOND;
	vgpus[0].active_ns = now;
	// The next decision is due in a second, when the first vGPU counts as idle.
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out);
	vgpus[0].switch_ns = 200 * MS;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + 500 * MS);
	vgpus[0].switch_ns = 1600 * MS;
	// The first vGPU's last move took 1.6 s. The vGPU counts as idle after half of that time.
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + 800 * MS);
	vgpus[0].switch_ns = 3 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + SECOND);
	vgpus[0].switch_ns = 900 * MS;
	vgpus[0].active_ns = now + 6900 * MS;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now + 6900 * MS), now + 7 * SECOND);
	CHECK(!vgpus[0].out);
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	// The second vGPU may come in only after the work of the first one has ended (it has drained).
	vgpus[0].state = RESIDENCE_LEAVING;
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	vgpus[0].has_drained = true;
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
}

TEST(released_room_is_given_to_one_vgpu)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_LEAVING), make_vgpu(60 * GIB, RESIDENCE_OUT),
					 make_vgpu(60 * GIB, RESIDENCE_OUT)};

	vgpus[0].has_drained = true;
	for (int i = 0; i < 3; i++)
		// The last of the three vGPUs has waited longest.
		set_waiting(&vgpus[i], (uint64_t)(30 - 10 * i) * SECOND);
	residence_decide(vgpus, 3, capacity, 40 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out && !vgpus[2].out);
	vgpus[2].wants = false;
	vgpus[2].state = RESIDENCE_COMING;
	residence_decide(vgpus, 3, capacity, 40 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out && !vgpus[2].out);
	// The vGPU that leaves may return before it has left completely, because no other vGPU takes the room.
	vgpus[2].state = RESIDENCE_OUT;
	vgpus[1].wants = false;
	residence_decide(vgpus, 3, capacity, 40 * SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out && vgpus[2].out);
}

TEST(returning_vgpu_is_ordered_out_if_other_stays)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_IN), make_vgpu(60 * GIB, RESIDENCE_COMING),
					 make_vgpu(15 * GIB, RESIDENCE_COMING)};

	vgpus[0].busy_until_ns = 50 * SECOND; // its last move to the host failed; the next attempt is at 50 s
	residence_decide(vgpus, 3, capacity, 49 * SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out && !vgpus[2].out);
	vgpus[1].state = RESIDENCE_LEAVING;
	residence_decide(vgpus, 3, capacity, 49 * SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out && !vgpus[2].out);
	vgpus[1].state = RESIDENCE_OUT;
	set_waiting(&vgpus[1], 49 * SECOND);
	residence_decide(vgpus, 3, capacity, 50 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out && !vgpus[2].out);
}

TEST(returning_vgpu_is_ordered_out_if_other_is_overdue)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_LEAVING), make_vgpu(60 * GIB, RESIDENCE_OUT)};

	vgpus[0].has_drained = true;
	set_waiting(&vgpus[1], SECOND);
	residence_decide(vgpus, 2, capacity, SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
	vgpus[1].state = RESIDENCE_COMING;
	residence_decide(vgpus, 2, capacity, 20 * SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
	vgpus[0].has_drained = false;
	vgpus[0].is_overdue = true;
	residence_decide(vgpus, 2, capacity, 21 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	vgpus[1].state = RESIDENCE_OUT;
	residence_decide(vgpus, 2, capacity, 22 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	vgpus[0].state = RESIDENCE_OUT; // the first vGPU has left the device, later than expected
	residence_decide(vgpus, 2, capacity, 23 * SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
}

TEST(busy_vgpu_is_not_ordered_out_before_its_time)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_IN), make_vgpu(60 * GIB, RESIDENCE_OUT)};

	set_waiting(&vgpus[1], 0);
	vgpus[0].busy_until_ns = 50 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, 49 * SECOND), 50 * SECOND);
	CHECK(!vgpus[0].out);
	residence_decide(vgpus, 2, capacity, 50 * SECOND);
	CHECK(vgpus[0].out);
}

TEST(only_needed_vgpus_leave_and_latency_class_last)
{
	struct residence_vgpu vgpus[] = {make_vgpu(20 * GIB, RESIDENCE_IN), make_vgpu(20 * GIB, RESIDENCE_IN),
					 make_vgpu(30 * GIB, RESIDENCE_IN), make_vgpu(20 * GIB, RESIDENCE_OUT)};
	uint64_t now = 100 * SECOND;

	for (int i = 0; i < 3; i++) {
		vgpus[i].active_ns = now;
		vgpus[i].in_since_ns = (uint64_t)(10 + i) * SECOND;
	}
	set_waiting(&vgpus[3], now);
	vgpus[0].is_latency = true;
	residence_decide(vgpus, 4, capacity, now);
	CHECK(!vgpus[0].out && vgpus[1].out && !vgpus[2].out && vgpus[3].out);
	vgpus[0].active_ns = now - 2 * SECOND; // idle now: it leaves before busy vGPUs, despite its latency class
	residence_decide(vgpus, 4, capacity, now);
	CHECK(vgpus[0].out && !vgpus[1].out && !vgpus[2].out);
}

TEST(waiting_vgpus_return_in_order)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_IN), make_vgpu(60 * GIB, RESIDENCE_OUT),
					 make_vgpu(10 * GIB, RESIDENCE_OUT)};

	set_waiting(&vgpus[1], 10);
	set_waiting(&vgpus[2], 20);
	vgpus[0].in_since_ns = vgpus[0].active_ns = SECOND;
	// The small vGPU would fit now. But if small vGPUs could overtake the large one, that might wait for ever.
	residence_decide(vgpus, 3, capacity, SECOND + MS);
	CHECK(!vgpus[0].out && vgpus[1].out && vgpus[2].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 3, capacity, SECOND + MS);
	CHECK(vgpus[0].out && !vgpus[1].out && !vgpus[2].out);
}

// A model of a program and its vGPU. The program works when it wants to and the vGPU's memory is on the device. To
// leave, it drains, and then its memory leaves at 50 GiB/s. The memory returns at the same rate while the device has
// room. Some moves to the host fail half-way; then the memory returns.
struct program {
	uint64_t next_ns; // the time at which the program wants to work next
	uint64_t here;	  // how many bytes are on the device that can move to the host
	uint64_t drained_ns, began_ns;
	// The time at which a part of the memory last returned; 0: the memory is not returning in parts.
	uint64_t progress_ns;
	uint64_t worked_ms, longest_wait_ns;
	// Every second move to the host fails until this time.
	uint64_t fails_until_ns;
	bool always, is_failing;
};

static const uint64_t step_bytes = GIB / 2; // per 10 ms

static uint64_t moving_bytes(const struct residence_vgpu *vgpu)
{
	return vgpu->memory - vgpu->fixed;
}

static void begin_move(struct residence_vgpu *vgpu, struct program *program, uint64_t now)
{
	program->began_ns = now;
	if (vgpu->out) {
		vgpu->state = RESIDENCE_LEAVING;
		vgpu->has_drained = program->is_failing = false;
		program->drained_ns = now + (uint64_t)(rand() % 30) * MS;
	} else {
		vgpu->state = RESIDENCE_COMING;
		program->progress_ns = now;
	}
}

static void end_move(struct residence_vgpu *vgpu, struct program *program, uint64_t now, enum residence_state state)
{
	vgpu->state = state;
	vgpu->switch_ns = now - program->began_ns;
	if (state == RESIDENCE_IN)
		vgpu->in_since_ns = now;
}

// Moves a part of the memory to the device. If there was no room for 10 s, releases all of it again. Returns true when
// all memory is on the device.
static bool move_in_step(const struct residence_vgpu *vgpu, struct program *program, uint64_t now, uint64_t *free_bytes)
{
	uint64_t left = moving_bytes(vgpu) - program->here, step = left < step_bytes ? left : step_bytes;

	if (!program->progress_ns) {
		step = *free_bytes >= left ? left : 0;
	} else if (*free_bytes) {
		program->progress_ns = now;
		step = step < *free_bytes ? step : *free_bytes;
	} else if (now > program->progress_ns + 10 * SECOND) {
		*free_bytes += program->here;
		program->here = program->progress_ns = 0;
		return false;
	} else {
		step = 0;
	}
	program->here += step;
	*free_bytes -= step;
	return program->here == moving_bytes(vgpu);
}

// Handles a failed move to the host as the pager does: moves all memory back, or none if there is no room.
static void undo_leave(struct residence_vgpu *vgpu, struct program *program, uint64_t now, uint64_t *free_bytes)
{
	uint64_t left = moving_bytes(vgpu) - program->here;

	if (*free_bytes < left)
		return;
	*free_bytes -= left;
	program->here += left;
	end_move(vgpu, program, now, RESIDENCE_IN);
	vgpu->out = false;
	vgpu->busy_until_ns = now + SECOND;
}

static void move_out_step(struct residence_vgpu *vgpu, struct program *program, uint64_t now, uint64_t *free_bytes)
{
	uint64_t step = program->here < step_bytes ? program->here : step_bytes;

	if (now < program->drained_ns)
		return;
	if (!vgpu->has_drained)
		program->is_failing = now < program->fails_until_ns && rand() % 2;
	vgpu->has_drained = true;
	if (program->is_failing && program->here < moving_bytes(vgpu) / 2) {
		undo_leave(vgpu, program, now, free_bytes);
		return;
	}
	program->here -= step;
	*free_bytes += step;
	if (program->here == 0)
		end_move(vgpu, program, now, RESIDENCE_OUT);
}

static void advance_move(struct residence_vgpu *vgpu, struct program *program, uint64_t now, uint64_t *free_bytes)
{
	// The policy has ordered the vGPU out again while its memory was returning.
	if (vgpu->out && vgpu->state == RESIDENCE_COMING) {
		*free_bytes += program->here;
		program->here = 0;
		end_move(vgpu, program, now, RESIDENCE_OUT);
	} else if ((vgpu->out && vgpu->state == RESIDENCE_IN) || (!vgpu->out && vgpu->state == RESIDENCE_OUT)) {
		begin_move(vgpu, program, now);
	} else if (vgpu->state == RESIDENCE_LEAVING) {
		move_out_step(vgpu, program, now, free_bytes);
	} else if (vgpu->state == RESIDENCE_COMING && move_in_step(vgpu, program, now, free_bytes)) {
		end_move(vgpu, program, now, RESIDENCE_IN);
	}
}

static void advance_program(struct residence_vgpu *vgpu, struct program *program, uint64_t now)
{
	bool wants = program->always || now >= program->next_ns;

	if (wants && vgpu->state == RESIDENCE_IN) {
		vgpu->active_ns = now;
		program->worked_ms += 10;
		vgpu->wants = false;
		if (!program->always)
			program->next_ns = now + (uint64_t)(rand() % 4000) * MS;
	} else if (wants && !vgpu->wants) {
		set_waiting(vgpu, now);
	}
	if (vgpu->wants && now - vgpu->wants_since_ns > program->longest_wait_ns)
		program->longest_wait_ns = now - vgpu->wants_since_ns;
}

static void run_model(struct residence_vgpu *vgpus, struct program *programs, size_t count, unsigned int seconds)
{
	uint64_t free_bytes = capacity;

	for (size_t i = 0; i < count; i++)
		free_bytes -= vgpus[i].fixed;
	for (uint64_t now = 0; now < seconds * SECOND; now += 10 * MS) {
		uint64_t promised = 0;
		residence_decide(vgpus, count, capacity, now);
		for (size_t i = 0; i < count; i++)
			promised += vgpus[i].out ? vgpus[i].fixed : vgpus[i].memory;
		CHECK(promised <= capacity);
		for (size_t i = 0; i < count; i++) {
			advance_move(&vgpus[i], &programs[i], now, &free_bytes);
			advance_program(&vgpus[i], &programs[i], now);
		}
	}
}

TEST(two_busy_vgpus_alternate)
{
	struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_OUT), make_vgpu(60 * GIB, RESIDENCE_OUT)};
	struct program programs[2] = {{.always = true}, {.always = true}};

	run_model(vgpus, programs, 2, 420);
	// The vGPUs exchange their memory every 11.8 s, and both moves together take 1.2 s.
	CHECK(programs[0].worked_ms + programs[1].worked_ms > 420 * 890);
	CHECK(programs[0].worked_ms > 420 * 430);
	CHECK(programs[1].worked_ms > 420 * 430);
}

// Some moves fail half-way while another vGPU already takes the room. No vGPU may wait for ever because of that.
TEST(failed_moves_block_no_vgpu)
{
	const unsigned int seconds = 420;

	for (unsigned int seed = 0; seed < 50; seed++) {
		struct residence_vgpu vgpus[] = {make_vgpu(60 * GIB, RESIDENCE_OUT), make_vgpu(60 * GIB, RESIDENCE_OUT),
						 make_vgpu(30 * GIB, RESIDENCE_OUT)};
		struct program programs[3] = {{.always = true}, {.always = true}};
		srand(seed);
		for (int i = 0; i < 3; i++)
			programs[i].fails_until_ns = seconds / 2 * SECOND;
		run_model(vgpus, programs, 3, seconds);
		for (int i = 0; i < 3; i++) {
			CHECK(programs[i].worked_ms > 0);
			CHECK(!vgpus[i].wants || vgpus[i].wants_since_ns > (seconds - 100) * SECOND);
		}
	}
}

TEST(occasional_servers_all_get_the_device)
{
	struct residence_vgpu vgpus[] = {make_vgpu(42 * GIB, RESIDENCE_OUT), make_vgpu(42 * GIB, RESIDENCE_OUT),
					 make_vgpu(42 * GIB, RESIDENCE_OUT)};
	struct program programs[3] = {{0}};

	srand(1);
	run_model(vgpus, programs, 3, 300);
	for (int i = 0; i < 3; i++) {
		CHECK(programs[i].worked_ms > 200);
		CHECK(programs[i].longest_wait_ns < 30 * SECOND);
	}
}

// Lets the policy decide for six vGPUs with random sizes, states and times. Its orders must never need more room than
// the device has. No vGPU may be ordered in before its room is being released, and no suspended vGPU may be ordered in.
TEST(random_facts_never_overcommit_the_device)
{
	srand(2);
	for (int round = 0; round < 20000; round++) {
		struct residence_vgpu vgpus[6];
		uint64_t now = (uint64_t)(rand() % 1000) * SECOND, promised = 0, stays = 0, in = 0;
		bool is_ordered_in = false;
		for (int i = 0; i < 6; i++) {
			vgpus[i] = make_vgpu((uint64_t)(2 + rand() % 60) * GIB, (enum residence_state)(rand() % 4));
			vgpus[i].is_suspended = rand() % 5 == 0;
			vgpus[i].has_drained = rand() % 2;
			vgpus[i].in_since_ns = (uint64_t)(rand() % 1000) * SECOND;
			vgpus[i].active_ns = (uint64_t)(rand() % 1000) * SECOND;
			if (rand() % 2)
				set_waiting(&vgpus[i], (uint64_t)rand());
			in += vgpus[i].state == RESIDENCE_IN ? vgpus[i].memory : vgpus[i].fixed;
		}
		uint64_t next = residence_decide(vgpus, 6, capacity, now);
		CHECK(next > now);
		for (int i = 0; i < 6; i++) {
			bool leaves = vgpus[i].state == RESIDENCE_LEAVING && vgpus[i].has_drained;
			CHECK(!vgpus[i].is_suspended || vgpus[i].out);
			promised += vgpus[i].out ? vgpus[i].fixed : vgpus[i].memory;
			leaves |= vgpus[i].state == RESIDENCE_OUT;
			stays += vgpus[i].out && leaves ? vgpus[i].fixed : vgpus[i].memory;
			is_ordered_in |= !vgpus[i].out && vgpus[i].state == RESIDENCE_OUT;
		}
		CHECK(promised <= (in > capacity ? in : capacity));
		CHECK(!is_ordered_in || stays <= capacity);
	}
}
