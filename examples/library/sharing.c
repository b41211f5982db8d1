// One process writes, another one reads the same device memory: a pool is sent over a socket as a descriptor, a buffer
// as bytes. The second process must be started before the first has used CUDA.
#include "check.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 20, WORD = 0x5eed };

struct side {
	struct vg_context *context;
	struct vg_device *device;
	struct vg_stream *stream;
};

static struct side open_side(void)
{
	struct side side;

	check(vg_device_get(0, &side.device));
	check(vg_context_primary(side.device, &side.context));
	check(vg_stream_create(side.context, NULL, &side.stream));
	return side;
}

static void close_side(struct side *side)
{
	vg_stream_destroy(side->stream);
	vg_context_destroy(side->context);
}

static int send_with(int socket, const void *data, size_t size, int descriptor)
{
	char space[CMSG_SPACE(sizeof descriptor)] = {0};
	struct iovec part = {(void *)data, size};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

	*rights = (struct cmsghdr){CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	return sendmsg(socket, &message, 0) == (ssize_t)size;
}

static ssize_t receive_with(int socket, void *data, size_t size, int *ret_descriptor)
{
	char space[CMSG_SPACE(sizeof *ret_descriptor)];
	struct iovec part = {data, size};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);

	if (got < 0 || !CMSG_FIRSTHDR(&message))
		return -1;
	memcpy(ret_descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *ret_descriptor);
	return got;
}

static int run_reader(int socket)
{
	struct vg_buffer_descriptor words;
	struct vg_memory_resource *pool;
	struct vg_buffer *buffer;
	unsigned word = 0;
	int descriptor;

	ssize_t got = receive_with(socket, &words, sizeof words, &descriptor);
	if (got < 0)
		return 1;
	struct side side = open_side();
	check(vg_device_pool_import(side.device, descriptor, &pool));
	close(descriptor);
	check(vg_buffer_import(pool, &words, (size_t)got, side.stream, &buffer));
	check(vg_buffer_read(buffer, SIZE - 4, &word, 4, side.stream));
	check(vg_stream_sync(side.stream));
	printf("the other process reads 0x%x from %zu bytes\n", word, vg_buffer_size(buffer));
	check(vg_buffer_close(buffer, NULL));
	check(vg_stream_sync(side.stream)); // the first process may free it after this
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	close_side(&side);
	return word == WORD ? 0 : 1;
}

static void run_writer(int socket)
{
	struct vg_device_pool_options options = {.size = sizeof options, .shareable = 1};
	struct vg_buffer_descriptor words;
	struct vg_memory_resource *pool;
	struct side side = open_side();
	struct vg_buffer *buffer;
	int descriptor, status;

	check(vg_device_pool_create(side.device, &options, &pool));
	check(vg_buffer_create(pool, SIZE, side.stream, &buffer));
	check(vg_buffer_fill(buffer, &(unsigned){WORD}, 4, side.stream));
	check(vg_stream_sync(side.stream));
	check(vg_memory_pool_export(pool, &descriptor));
	check(vg_buffer_export(buffer, &words));
	if (!send_with(socket, &words, sizeof words, descriptor))
		exit(1);
	close(descriptor);
	if (wait(&status) < 0 || status != 0)
		exit(1);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	close_side(&side);
}

int main(void)
{
	int ends[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
		return 1;
	pid_t child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		close(ends[0]);
		return run_reader(ends[1]);
	}
	close(ends[1]);
	run_writer(ends[0]);
	printf("sharing: one buffer in two processes\n");
	return 0;
}
