// Replaces a CRIU that streams images. "dump" writes the files of $SOURCE through the socket, all at the same time.
// "restore" reads them back into $TARGET, some of them twice. $TRICK makes it fail.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIECE = 50000, MOST_FILES = 64 };

static const char *source, *target, *trick = "", *work = ".";
static char names[MOST_FILES][NAME_MAX + 1];
static int count;

static void stop(const char *why)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s.log", work, target ? "restore" : "dump");
	FILE *log = fopen(path, "w");
	if (log) {
		fprintf(log, "(00.001) Error (streaming.c:1): %s\n", why);
		fclose(log);
	}
	exit(1);
}

static void list(void)
{
	struct dirent **entries;
	int found = scandir(source, &entries, NULL, alphasort);

	for (int i = 0; i < found; i++)
		if (entries[i]->d_name[0] != '.' && count < MOST_FILES)
			snprintf(names[count++], sizeof *names, "%s", entries[i]->d_name);
}

static int open_in(const char *directory, const char *name, int flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	int fd = open(path, flags, 0600);
	if (fd < 0)
		stop(path);
	return fd;
}

static int meet(const char *directory, const char *what)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s/streamer-%s.sock", directory, what);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		stop("nobody at the socket");
	return fd;
}

static void ask(int socket, const char *name)
{
	unsigned char message[4 + 2 + NAME_MAX] = {0};
	size_t length = strlen(name);
	uint32_t size = (uint32_t)length + 2;

	memcpy(message, &size, sizeof size);
	message[4] = 0x0a;
	message[5] = (unsigned char)length;
	memcpy(message + 6, name, length);
	if (send(socket, message, 6 + length, MSG_NOSIGNAL) != (ssize_t)(6 + length))
		stop("the socket was closed");
}

// Sends one end of a new pipe through the socket.
static void give(int socket, int end)
{
	char room[CMSG_SPACE(sizeof end)] = {0}, byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof end);
	memcpy(CMSG_DATA(header), &end, sizeof end);
	if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1)
		stop("the socket was closed");
	close(end);
}

static void dump(const char *directory)
{
	static char piece[PIECE];
	int inputs[MOST_FILES], outputs[MOST_FILES], ends[2], open_files = count;
	int socket = meet(directory, "capture");

	if (strcmp(trick, "name") == 0)
		ask(socket, "../escaped");
	if (strcmp(trick, "long") == 0 && send(socket, "\xff\xff\xff\x7f", 4, MSG_NOSIGNAL) != 4)
		stop("the socket was closed");
	for (int i = 0; i < count; i++) {
		ask(socket, names[i]);
		if (pipe(ends) < 0)
			stop("pipe");
		give(socket, ends[0]);
		inputs[i] = open_in(source, names[i], O_RDONLY);
		outputs[i] = ends[1];
	}
	while (open_files > 0)
		for (int i = 0; i < count; i++) {
			if (outputs[i] < 0)
				continue;
			ssize_t length = read(inputs[i], piece, sizeof piece);
			for (ssize_t at = 0, put; at < length; at += put)
				if ((put = write(outputs[i], piece + at, (size_t)(length - at))) < 0)
					stop("told that nobody reads");
			if (length > 0 && strcmp(trick, "die") == 0)
				stop("told to die half way");
			if (length > 0)
				continue;
			close(inputs[i]);
			close(outputs[i]);
			outputs[i] = -1;
			open_files--;
		}
}

static int open_of(int socket, const char *name)
{
	unsigned char reply[6];
	int ends[2];

	ask(socket, name);
	if (recv(socket, reply, sizeof reply, MSG_WAITALL) != sizeof reply)
		stop("no reply");
	if (!reply[5])
		return -1;
	if (pipe(ends) < 0)
		stop("pipe");
	give(socket, ends[1]);
	return ends[0];
}

static void restore(const char *directory, int streams)
{
	static char piece[PIECE];
	int socket = streams ? meet(directory, "serve") : -1;

	if (streams && open_of(socket, "no-such.img") >= 0)
		stop("a file that is not there");
	for (int i = 0; i < count; i++) {
		ssize_t length;
		// Close the pipe early, as a reader does that wants only the beginning of a file.
		if (streams) {
			int once = open_of(socket, names[i]);
			if (once >= 0 && read(once, piece, 10) < 0)
				stop("read");
			close(once);
		}
		int input = streams ? open_of(socket, names[i]) : open_in(directory, names[i], O_RDONLY);
		if (input < 0)
			stop(names[i]);
		int output = open_in(target, names[i], O_WRONLY | O_CREAT | O_TRUNC);
		while ((length = read(input, piece, sizeof piece)) > 0)
			if (write(output, piece, (size_t)length) != length)
				stop("write");
		close(input);
		close(output);
	}
}

int main(int argc, char **argv)
{
	const char *directory = ".";
	int streams = 0;

	signal(SIGPIPE, SIG_IGN);
	source = getenv("SOURCE");
	if (getenv("TRICK"))
		trick = getenv("TRICK");
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "-D") == 0)
			directory = argv[i + 1];
		if (strcmp(argv[i], "-W") == 0)
			work = argv[i + 1];
		streams |= strcmp(argv[i], "--stream") == 0;
	}
	list();
	if (strcmp(trick, "fail") == 0)
		stop("told to fail");
	if (argc > 1 && strcmp(argv[1], "dump") == 0) {
		dump(directory);
	} else {
		target = getenv("TARGET");
		restore(directory, streams);
	}
	return 0;
}
