#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/move/frame.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 100 };

struct frame_header {
	uint32_t type, bytes;
	uint64_t sum; // XXH3 of the members above and the payload, seeded with the frame's number
};

static uint64_t sum_of(const struct frame_header *header, uint64_t number, const void *head, size_t head_bytes,
		       const void *body, size_t body_bytes)
{
	XXH3_state_t state;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset_withSeed(&state, number);
	XXH3_64bits_update(&state, header, 8);
	XXH3_64bits_update(&state, head, head_bytes);
	XXH3_64bits_update(&state, body, body_bytes);
	return XXH3_64bits_digest(&state);
}

static enum vg_status fail_connection(const struct frames *frames, int error)
{
	if (error == EPIPE || error == ECONNRESET)
		return vg_fail(VG_SYSTEM, ECONNRESET,
			       frames->out < 0 ? "what comes in stops before its end"
					       : "the other side has closed the connection");
	return vg_fail(VG_SYSTEM, error, "the connection: %s", strerror(error));
}

// Returns whether a wait must end now because the progress function asked to stop. If `patience` is not 0, returns
// false, and sets `deadline` so that the wait ends after that time.
static bool must_stop(struct frames *frames)
{
	if (!frames->phase || !frames->may_stop || !frames->phase->stop)
		return false;
	if (frames->patience && !frames->deadline)
		frames->deadline = vg_clock_monotonic_ns() + frames->patience;
	return !frames->patience;
}

static enum vg_status wait_for_events(struct frames *frames, int fd, short events)
{
	struct pollfd wanted = {.fd = fd, .events = events};

	for (;;) {
		int r = poll(&wanted, 1, frames->phase || frames->deadline ? TICK_MS : -1);
		if (r < 0 && errno != EINTR)
			return fail_connection(frames, errno);
		if (frames->phase)
			phase_tick(frames->phase);
		if (must_stop(frames))
			return vg_fail(VG_STATE, 0, "stopped, as asked");
		if (r > 0)
			return VG_OK;
		if (frames->deadline && vg_clock_monotonic_ns() >= frames->deadline)
			return vg_fail(VG_NOT_READY, ETIMEDOUT, "the other side does not answer");
	}
}

// Writes without causing SIGPIPE: a closed pipe returns an error.
static ssize_t write_quietly(int fd, const void *data, size_t bytes)
{
	sigset_t pipe, before, waiting;

	ssize_t count = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (count >= 0 || errno != ENOTSOCK)
		return count;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&waiting);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	count = write(fd, data, bytes);
	int error = errno;
	if (count < 0 && error == EPIPE && !sigismember(&waiting, SIGPIPE))
		sigtimedwait(&pipe, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return count;
}

enum vg_status frames_write_plain(struct frames *frames, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		enum vg_status status = wait_for_events(frames, frames->out, POLLOUT);
		if (status)
			return status;
		ssize_t count = write_quietly(frames->out, (const char *)data + done, bytes - done);
		if (count < 0 && errno != EINTR && errno != EAGAIN)
			return fail_connection(frames, errno);
		done += count > 0 ? (size_t)count : 0;
	}
	return VG_OK;
}

// Reads `bytes` bytes. *ret_count is less only at the end of the input.
static enum vg_status read_some(struct frames *frames, void *data, size_t bytes, size_t *ret_count)
{
	size_t done = 0;

	while (done < bytes) {
		enum vg_status status = wait_for_events(frames, frames->in, POLLIN);
		if (status)
			return status;
		ssize_t count = read(frames->in, (char *)data + done, bytes - done);
		if (count < 0 && errno != EINTR && errno != EAGAIN)
			return fail_connection(frames, errno);
		if (count == 0)
			break;
		done += count > 0 ? (size_t)count : 0;
	}
	*ret_count = done;
	return VG_OK;
}

enum vg_status frames_read_plain(struct frames *frames, void *data, size_t bytes)
{
	size_t count;

	enum vg_status status = read_some(frames, data, bytes, &count);
	return status || count == bytes ? status : fail_connection(frames, ECONNRESET);
}

enum vg_status frames_read_end(struct frames *frames)
{
	size_t count;
	char byte;

	enum vg_status status = read_some(frames, &byte, 1, &count);
	if (status == VG_OK && count)
		status = vg_fail(VG_INTEGRITY, 0, "the image's stream goes on behind its end");
	return status;
}

enum vg_status frame_write(struct frames *frames, enum frame_type type, const void *head, size_t head_bytes,
			   const void *body, size_t body_bytes)
{
	struct frame_header header = {.type = (uint32_t)type, .bytes = (uint32_t)(head_bytes + body_bytes)};

	header.sum = sum_of(&header, frames->written, head, head_bytes, body, body_bytes);
	frames->written++;
	enum vg_status status = frames_write_plain(frames, &header, sizeof header);
	if (status == VG_OK)
		status = frames_write_plain(frames, head, head_bytes);
	return status ? status : frames_write_plain(frames, body, body_bytes);
}

enum vg_status frame_read(struct frames *frames, enum frame_type *ret_type)
{
	struct frame_header header;

	if (!frames->payload && !(frames->payload = malloc(FRAME_MOST)))
		return vg_fail(VG_NO_MEMORY, 0, "no memory for what comes in");
	enum vg_status status = frames_read_plain(frames, &header, sizeof header);
	if (status)
		return status;
	if (header.bytes > FRAME_MOST)
		return vg_fail(VG_INTEGRITY, 0, "frame %llu is damaged: %u bytes are too many for one",
			       (unsigned long long)frames->read, header.bytes);
	status = frames_read_plain(frames, frames->payload, header.bytes);
	if (status)
		return status;
	if (header.sum != sum_of(&header, frames->read, frames->payload, header.bytes, NULL, 0))
		return vg_fail(VG_INTEGRITY, 0, "frame %llu is damaged: its checksum is another",
			       (unsigned long long)frames->read);
	frames->read++;
	frames->payload_bytes = header.bytes;
	*ret_type = (enum frame_type)header.type;
	return VG_OK;
}

void frames_finish(struct frames *frames)
{
	free(frames->payload);
	frames->payload = NULL;
}
