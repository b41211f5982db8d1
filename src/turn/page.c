// Reads and writes the shared words for the arbiter. Tenants can write any value, so each word is read once and
// bounded.
#include "turn/page.h"

#include "turn/turn.h"

#define LOAD(word) atomic_load_explicit(&(word), memory_order_acquire)
#define STORE(word, value) atomic_store_explicit(&(word), value, memory_order_relaxed)

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

void turn_page_read(const struct turn_page *page, const struct turn_slot *slots, unsigned int count,
		    const uint64_t *stopped, uint64_t margin_ns, uint64_t now, struct turn_facts *ret_facts)
{
	struct turn_facts facts = {0};
	uint32_t number = turn_word_number(LOAD(page->word));

	for (unsigned int i = 0; i < count; i++) {
		const struct turn_slot *slot = &slots[i];
		bool is_stopped = stopped && stopped[i / 64] >> i % 64 & 1;
		uint64_t eta = LOAD(slot->eta_ns), idle = at_most(LOAD(slot->idle_ns), now);
		uint64_t began = LOAD(slot->turn) == number ? at_most(LOAD(slot->began_ns), now) : 0;
		bool watched = LOAD(slot->watching) && !is_stopped;

		facts.launches += LOAD(slot->launches);
		facts.gpu_ns += LOAD(slot->gpu_ns);
		facts.is_stopped |= is_stopped;
		if (LOAD(slot->waiting) && !is_stopped) {
			facts.waiting++;
			uint64_t alive = at_most(LOAD(slot->alive_ns), now);
			facts.alive_ns = alive > facts.alive_ns ? alive : facts.alive_ns;
		}
		facts.is_urgent |= LOAD(slot->urgent) != 0;
		// If no thread watches the work, the process does not report its end. So the work counts as ended when
		// its estimated time is over.
		if (eta && !watched && (eta > UINT64_MAX - margin_ns ? UINT64_MAX : eta + margin_ns) <= now) {
			idle = idle > eta ? idle : eta;
			eta = 0;
			facts.is_overdue = true;
		}
		if (eta) {
			facts.in_flight++;
			facts.eta_ns = eta > facts.eta_ns ? eta : facts.eta_ns;
		}
		if (began && (!facts.began_ns || began < facts.began_ns))
			facts.began_ns = began;
		facts.idle_ns = idle > facts.idle_ns ? idle : facts.idle_ns;
	}
	*ret_facts = facts;
}

unsigned int turn_page_write(struct turn_page *page, const struct turn_gate *gate, uint64_t now)
{
	uint32_t before = atomic_load_explicit(&page->word, memory_order_relaxed);
	bool closed = turn_word_state(gate->word) == TURN_CLOSED, was_closed = turn_word_state(before) == TURN_CLOSED;
	bool asks = closed || turn_word_is(gate->word, TURN_WANTED);
	bool asked = was_closed || turn_word_is(before, TURN_WANTED);
	bool quiet = closed && turn_word_is(gate->word, TURN_PAUSED);
	bool was_quiet = was_closed && turn_word_is(before, TURN_PAUSED);
	unsigned int written = 0;

	STORE(page->window_us, gate->window_us);
	STORE(page->patience_us, gate->patience_us);
	STORE(page->until_ns, gate->until_ns);
	STORE(page->ahead_ns, gate->ahead_ns);
	STORE(page->turn_ns, gate->turn_ns);
	STORE(page->reason, (uint32_t)gate->reason);
	STORE(page->beat_ns, now);
	if (before == gate->word)
		return 0;
	atomic_store(&page->word, gate->word);
	if (!closed || turn_word_is(gate->word, TURN_SPIN))
		written |= TURN_WRITTEN_WAKE;
	if ((asks && !asked) || quiet != was_quiet) {
		atomic_thread_fence(memory_order_seq_cst);
		written |= TURN_WRITTEN_LOOK;
	}
	return written;
}
