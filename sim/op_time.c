#include "op_time.h"

#include <stdlib.h>

#include "fault.h"
#include "log.h"
#include "mps.h"
#include "process.h"

// ---- submission -----------------------------------------------------------------------------

// Lists the operation's pieces of work, at most `capacity`, and returns their number. 0: the operation takes no time.
static unsigned list_pieces(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	if (op->class->pieces)
		return op->class->pieces(op, ret_pieces, capacity);
	if (op->instant && op->wait_count == 0)
		return 0;
	return sim_time_host_piece(op, ret_pieces, capacity);
}

unsigned sim_time_host_piece(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	if (capacity)
		ret_pieces[0] = (struct region_piece){.engine = TIME_HOST};
	return 1;
}

bool sim_time_has_room(const struct sim_stream *stream, const struct sim_op *op)
{
	unsigned count = op->class->pieces ? op->class->pieces(op, NULL, 0) : 1;

	return stream->pieces + count <= TIME_DEPTH;
}

static int get_device(const struct sim_stream *stream)
{
	return stream->context->device->physical;
}

static CUresult claim_channel(struct sim_stream *stream)
{
	uint64_t context = sim_mps_is_client() ? REGION_TIME_MPS
					       : region_time_context(sim_process.region, stream->context->parent->id);
	int status = region_time_claim(sim_process.region, get_device(stream), context, &stream->channel);

	stream->has_channel = status == 0;
	if (status == 0)
		return CUDA_SUCCESS;
	if (status == REGION_FULL)
		sim_warn("device %d: more than %d streams have work at once", stream->context->device->ordinal,
			 TIME_CHANNELS);
	(void)sim_report_no_space(status, sizeof(struct time_work) * TIME_DEPTH);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_time_append(struct sim_stream *stream, struct sim_op *op)
{
	struct region_piece pieces[SIM_PIECES_MOST];
	unsigned count = list_pieces(op, pieces, SIM_PIECES_MOST);

	op->time = calloc(1, sizeof *op->time);
	if (!op->time)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->time->submitted_ns = region_time_now(sim_process.region);
	if (count == 0)
		return CUDA_SUCCESS;
	if (!stream->has_channel)
		SIM_TRY(claim_channel(stream));
	op->time->first = region_time_append(sim_process.region, get_device(stream), stream->channel, pieces, count,
					     op->wait_count ? 0 : op->time->submitted_ns);
	op->pieces = count;
	stream->pieces += count;
	return CUDA_SUCCESS;
}

void sim_time_ready(struct sim_op *op, uint64_t ready_ns)
{
	struct sim_op_time *time = op->time;

	time->ready_ns = ready_ns > time->submitted_ns ? ready_ns : time->submitted_ns;
	if (op->pieces)
		region_time_ready(sim_process.region, get_device(op->stream), op->stream->channel, time->first,
				  time->ready_ns);
}

// ---- running --------------------------------------------------------------------------------

// Sleeps until the piece of work runs or has ended, as `stage` says. If `context` is not NULL and its work is
// cancelled, returns false earlier.
static bool wait_for_stage(const struct sim_stream *stream, uint64_t sequence, enum time_stage stage,
			   const struct sim_context *context, uint64_t *ret_end_ns)
{
	int device = get_device(stream);

	for (;;) {
		struct region_moment moment =
			region_time_query(sim_process.region, device, stream->channel, sequence, stage);
		if (moment.stage >= stage) {
			*ret_end_ns = moment.end_ns;
			return true;
		}
		sim_mps_check_failure();
		if (context && atomic_load_explicit(&context->cancel, memory_order_relaxed))
			return false;
		region_time_sleep(sim_process.region, device, &moment);
	}
}

// Waits for the end of the piece of work. Cancels the piece if its operation failed or is cancelled.
static CUresult end_piece(const struct sim_op *op, const struct sim_stream *stream, uint64_t sequence, CUresult result,
			  uint64_t *ret_end_ns)
{
	if (result == CUDA_SUCCESS && wait_for_stage(stream, sequence, TIME_ENDS, op->context, ret_end_ns))
		return CUDA_SUCCESS;
	region_time_cancel(sim_process.region, get_device(stream), stream->channel, sequence);
	(void)wait_for_stage(stream, sequence, TIME_ENDS, NULL, ret_end_ns);
	return result == CUDA_SUCCESS ? CUDA_ERROR_CONTEXT_IS_DESTROYED : result;
}

static CUresult run_on_host(struct sim_op *op, const struct sim_stream *stream, uint64_t sequence, uint64_t *ret_end_ns)
{
	CUresult result = op->class->run(op);
	bool at_once = op->instant && op->time && op->time->ready_ns;
	uint64_t closed = at_once ? op->time->ready_ns : region_time_now(sim_process.region);

	region_time_close(sim_process.region, get_device(stream), stream->channel, sequence, 0, closed);
	(void)wait_for_stage(stream, sequence, TIME_ENDS, NULL, ret_end_ns);
	return result;
}

// Runs the operation when the device has begun its piece of work, because the operation's effect on memory must not be
// visible earlier. Measures how long the operation takes.
static CUresult run_when_served(struct sim_op *op, const struct sim_stream *stream, uint64_t sequence,
				uint64_t *ret_own_ns)
{
	uint64_t end;

	if (!wait_for_stage(stream, sequence, TIME_RUNS, op->context, &end))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	uint64_t start = sim_clock_ns();
	sim_fault_delay(op->context->device);
	CUresult result = op->class->run(op);
	*ret_own_ns = sim_clock_ns() - start;
	return result;
}

static CUresult run_on_device(struct sim_op *op, const struct sim_stream *stream, uint64_t sequence,
			      const struct region_piece *piece, uint64_t *ret_end_ns)
{
	int device = get_device(stream);
	uint64_t own = 0;

	CUresult result = op->performed ? CUDA_SUCCESS : run_when_served(op, stream, sequence, &own);
	uint64_t need = piece->measured ? own : piece->need_ns;
	if (piece->open)
		region_time_close(sim_process.region, device, stream->channel, sequence, need,
				  region_time_now(sim_process.region));
	result = end_piece(op, stream, sequence, result, ret_end_ns);
	if (piece->engine == TIME_SMS && result == CUDA_SUCCESS)
		region_add_busy(sim_process.region, device, need);
	return result;
}

static CUresult run_piece(struct sim_op *op, const struct sim_stream *stream, uint64_t sequence, uint64_t *ret_end_ns)
{
	struct region_piece piece = {0};

	(void)list_pieces(op, &piece, 1);
	return piece.engine == TIME_HOST ? run_on_host(op, stream, sequence, ret_end_ns)
					 : run_on_device(op, stream, sequence, &piece, ret_end_ns);
}

CUresult sim_time_run(struct sim_op *op)
{
	return run_piece(op, op->stream, op->time->first, &op->time->ended_ns);
}

CUresult sim_time_run_node(struct sim_op *op, struct sim_time_cursor *cursor)
{
	struct region_piece piece = {0};

	if (!cursor->gathers)
		return run_piece(op, cursor->stream, cursor->next++, &cursor->end_ns);
	(void)list_pieces(op, &piece, 1);
	uint64_t start = sim_clock_ns();
	CUresult result = op->class->run(op);
	cursor->gathered_ns += piece.measured ? sim_clock_ns() - start : piece.need_ns;
	return result;
}

struct sim_time_cursor sim_time_begin_bodies(struct sim_context *context, struct sim_time_cursor *cursor)
{
	struct sim_time_cursor bodies = {.stream = cursor->stream, .gathers = true};
	uint64_t end;

	if (!cursor->gathers)
		(void)wait_for_stage(cursor->stream, cursor->next, TIME_RUNS, context, &end);
	return bodies;
}

void sim_time_end_bodies(struct sim_context *context, struct sim_time_cursor *cursor,
			 const struct sim_time_cursor *bodies)
{
	const struct sim_op op = {.context = context};

	if (cursor->gathers) {
		cursor->gathered_ns += bodies->gathered_ns;
		return;
	}
	region_time_close(sim_process.region, get_device(cursor->stream), cursor->stream->channel, cursor->next,
			  bodies->gathered_ns, region_time_now(sim_process.region));
	(void)end_piece(&op, cursor->stream, cursor->next++, CUDA_SUCCESS, &cursor->end_ns);
	region_add_busy(sim_process.region, get_device(cursor->stream), bodies->gathered_ns);
}

void sim_time_end_graph(struct sim_op *op, struct sim_time_cursor *cursor)
{
	if (cursor->gathers) {
		struct sim_time_cursor all = {.stream = cursor->stream, .next = op->time->first};
		sim_time_end_bodies(op->context, &all, cursor);
		cursor->next = all.next;
		cursor->end_ns = all.end_ns;
	}
	op->time->ended_ns = cursor->end_ns;
	for (; cursor->next < op->time->first + op->pieces; cursor->next++)
		(void)end_piece(op, cursor->stream, cursor->next, CUDA_ERROR_CONTEXT_IS_DESTROYED, &op->time->ended_ns);
}

void sim_time_skip(struct sim_op *op)
{
	for (unsigned i = 0; i < op->pieces; i++)
		(void)end_piece(op, op->stream, op->time->first + i, CUDA_ERROR_CONTEXT_IS_DESTROYED,
				&op->time->ended_ns);
}

void sim_time_end(struct sim_stream *stream, struct sim_op *op)
{
	struct sim_op_time *time = op->time;
	uint64_t earliest = time->ready_ns > time->submitted_ns ? time->ready_ns : time->submitted_ns;

	if (!time->ended_ns) // the operation took no time, so it ended together with the one before it
		time->ended_ns = stream->ended_ns > earliest ? stream->ended_ns : earliest;
	stream->ended_ns = time->ended_ns;
	stream->pieces -= op->pieces;
	if (stream->pieces || !stream->has_channel)
		return;
	region_time_release(sim_process.region, get_device(stream), stream->channel);
	stream->has_channel = false;
}
