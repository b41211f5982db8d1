// Computes how a simulated GPU divides its time between contexts. The functions depend only on their arguments: the
// queues of work, and a time. They use no clock, thread or file. The same code computes the state until now
// (region_time.c) and predicts the future. A stream with work has a channel: a ring buffer of pieces of work, in the
// order of the stream. Only the stream's process writes the channel. The state says how much of the work the device has
// done.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TIME_CHANNELS = 256, TIME_DEPTH = 1024, TIME_ENDED = 64 };

// What part of the device a piece of work uses while it runs.
enum time_engine {
	TIME_HOST, // work that the host does; the work after it waits until the process has done it
	TIME_SMS,
	TIME_COPY_IN,  // the copy engine for copies from the host
	TIME_COPY_OUT, // the copy engine for copies to the host
	TIME_ENGINES,
};

struct time_work {
	_Atomic uint64_t ready_ns;  // time from which the work may begin; 0: its process does not let it begin yet
	_Atomic uint64_t closed_ns; // time from which the work may end; 0: its process does not let it end yet
	_Atomic uint64_t need_ns;   // how much device time the work takes; valid once closed_ns is not 0
	_Atomic uint32_t engine;    // enum time_engine
	_Atomic uint32_t sms;	    // how many multiprocessors the work can use
	_Alignas(16) struct time_stamp {
		uint64_t sequence, end_ns; // number of the work in this entry, and when that work ended (0: not yet)
	} stamp;
};

struct time_channel {
	_Alignas(64) _Atomic uint64_t owner; // the process that uses the channel; 0: free
	_Atomic uint64_t context;	     // number of the context that the work belongs to
	_Atomic uint64_t tail;		     // number of the next piece of work
	_Atomic uint64_t done;		     // all work with lower numbers has ended; never decreases
	_Atomic uint32_t reserved;	     // space for the entries is reserved on the file system
};

struct time_queues {
	const struct time_channel *channels;
	struct time_work *work; // TIME_DEPTH entries for each channel
	unsigned count;
};

struct time_rules {
	uint64_t slice_ns, switch_ns;
	unsigned sms;
};

struct time_active { // a channel with work
	uint32_t channel;
	uint32_t runnable; // the first unfinished work of the channel may run
	uint64_t sequence; // number of the first unfinished work
	uint64_t context;
	uint64_t served_ns; // how much device time the device has given the first unfinished work so far
	uint64_t turn;	    // the context with the lowest turn runs next
	uint64_t gone_ns;   // when the work of a dead process is removed; 0: the process lives
};

struct time_ended {
	uint32_t channel, padding;
	// The number of a piece of work that has ended, and the time when it ended. All work before it in the channel
	// has ended, too.
	uint64_t sequence, end_ns;
};

// The state of a device at one moment. If all bytes are zero, the device has never run anything.
struct time_state {
	uint64_t now_ns;
	uint64_t current; // context that has the multiprocessors; 0: none yet
	uint64_t next;	  // context that the device switches to; 0: it does not switch
	uint64_t switch_end_ns, slice_end_ns;
	uint64_t turns;
	uint64_t busy_ns, switching_ns, switches; // sums since the simulated node was created
	uint32_t active_count, ended_count;
	struct time_ended ended[TIME_ENDED]; // work that ended in the latest call of time_advance()
	struct time_active active[TIME_CHANNELS];
};

// Begins a change of the state: clears `ended`, and adds channels that have work now. Before this call, the caller must
// store the numbers in `ended` in the member `done` of the channels.
void time_begin(struct time_state *state, const struct time_queues *queues);

// Advances the state to `until`, and drops channels without work. Returns false if it stopped earlier, because `ended`
// was full or after too many steps. Adds the number of changes of the state to *ret_events.
bool time_advance(struct time_state *state, const struct time_rules *rules, const struct time_queues *queues,
		  uint64_t until, unsigned *ret_events);

enum time_stage { TIME_WAITS, TIME_RUNS, TIME_ENDS };
// Returns the stage of a piece of work: whether it waits, runs or has ended.
enum time_stage time_stage_of(const struct time_state *state, const struct time_queues *queues, uint32_t channel,
			      uint64_t sequence);

// Predicts when the piece of work will be at `stage`, if no other work arrives. The prediction stops after a number of
// events. Then returns the time that it has reached, which is earlier. UINT64_MAX: the work waits until a process acts.
// Changes the state.
uint64_t time_predict(struct time_state *state, const struct time_rules *rules, const struct time_queues *queues,
		      uint32_t channel, uint64_t sequence, enum time_stage stage);
