// Creates further resources of the subject (subject.c), each by its name.
#include "subject.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

static void *work_beside(void *data)
{
	struct work *work = data;

	make(work);
	for (uint32_t round = 1; !ended && look(work, round); round++)
		usleep(10000);
	if (*work->wrong) {
		fprintf(stderr, "subject: a thread: %s\n", work->wrong);
		_exit(1);
	}
	return NULL;
}

static void have_threads(void)
{
	static struct work works[THREADS];
	pthread_t thread;

	for (uint32_t i = 0; i < THREADS; i++) {
		works[i].seed = 0x2000 + 16 * i;
		pthread_create(&thread, NULL, work_beside, &works[i]);
		pthread_detach(thread);
	}
}

static void have_managed_memory(void)
{
	CUdeviceptr memory;

	MUST(cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemsetD32(memory, 1, WORDS));
}

static void export_ipc_memory(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	char name[4096];

	MUST(cuMemAlloc(&memory, BYTES));
	MUST(cuIpcGetMemHandle(&handle, memory));
	snprintf(name, sizeof name, "%s.ipc", file_name);
	FILE *file = fopen(name, "w");
	if (!file || fwrite(&handle, sizeof handle, 1, file) != 1 || fclose(file))
		_exit(4);
}

static void import_ipc_memory(void)
{
	const char *name = getenv("SUBJECT_IPC");
	CUipcMemHandle handle;
	CUdeviceptr memory;

	FILE *file = fopen(name ? name : "", "r");
	if (!file || fread(&handle, sizeof handle, 1, file) != 1)
		_exit(4);
	fclose(file);
	MUST(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void export_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemoryPool pool;
	CUdeviceptr memory;
	int descriptor;

	MUST(cuMemPoolCreate(&pool, &properties));
	MUST(cuMemAllocFromPoolAsync(&memory, BYTES, pool, NULL));
	MUST(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

// Waits until the file FILE.go exists.
static void wait_for_file(void *data)
{
	char name[4096];

	(void)data;
	snprintf(name, sizeof name, "%s.go", file_name);
	while (access(name, F_OK) != 0)
		usleep(10000);
}

static void have_endless_work(void)
{
	CUstream stream;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuLaunchHostFunc(stream, wait_for_file, NULL));
}

// Makes a socket pair whose other end is open in a process outside the dumped tree. CRIU refuses that. The process is a
// grandchild that leaves the tree when its parent exits.
static void have_socket(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		_exit(4);
	if (fork() == 0) {
		close(ends[0]);
		if (fork() == 0) {
			setsid();
			// Wait until the other end is closed.
			(void)!read(ends[1], (char[1]){0}, 1);
		}
		_exit(0);
	}
	close(ends[1]);
	wait(NULL);
}

static void have_zombie(void)
{
	if (fork() == 0)
		_exit(0);
}

static void have_child(void)
{
	if (fork() == 0)
		for (;;)
			pause();
}

// Forks a child that runs as a subject, too, and writes its rounds into FILE.child. This process must not have used
// CUDA yet.
static void have_cuda_child(void)
{
	static char name[4096];

	snprintf(name, sizeof name, "%s.child", file_name);
	if (fork() == 0) {
		if (getenv("SUBJECT_CHILD_SIM"))
			setenv("VIRGATE_SIM", getenv("SUBJECT_CHILD_SIM"), 1);
		run(name, 0, NULL);
	}
}

static void have_three(void)
{
	if (fork() == 0) {
		have_cuda_child();
		for (;;)
			pause();
	}
}

// Opens the file that SUBJECT_DEVICE names. The test has created it in /dev with the name of a device.
static int open_device(void)
{
	const char *name = getenv("SUBJECT_DEVICE");
	int fd = open(name ? name : "", O_RDWR);

	return fd >= 0 ? fd : (_exit(4), -1);
}

static void have_device(void)
{
	(void)open_device();
}

static void have_device_in_child(void)
{
	int fd = open_device();

	have_child();
	close(fd);
}

// Opens two files whose names are then removed. The first file still has another name; the second has none.
static void have_lost_names(void)
{
	char name[4096], other[4096];

	snprintf(name, sizeof name, "%s.lost", file_name);
	snprintf(other, sizeof other, "%s.other", file_name);
	if (open(name, O_RDWR | O_CREAT | O_EXCL, 0600) < 0 || link(name, other) < 0 || unlink(name) < 0)
		_exit(4);
	if (open(name, O_RDWR | O_CREAT | O_EXCL, 0600) < 0 || unlink(name) < 0)
		_exit(4);
}

static const struct kind {
	const char *name;
	void (*make)(void);
	int early; // 1: created before the first use of CUDA
} kinds[] = {
	{"threads", have_threads, 0},
	{"managed", have_managed_memory, 0},
	{"ipc-export", export_ipc_memory, 0},
	{"ipc-import", import_ipc_memory, 0},
	{"pool-export", export_pool, 0},
	{"endless", have_endless_work, 0},
	{"socket", have_socket, 1},
	{"zombie", have_zombie, 1},
	{"child", have_child, 1},
	{"cuda-child", have_cuda_child, 1},
	{"three", have_three, 1},
	{"late-child", have_child, 0},
	{"device", have_device, 0},
	{"device-in-child", have_device_in_child, 0},
	{"zeros", have_zeros, 1},
	{"lost-names", have_lost_names, 1},
};

void make_kinds(int early, int count, char **names)
{
	for (int i = 0; i < count; i++)
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			if (strcmp(kinds[k].name, names[i]) == 0 && kinds[k].early == early)
				kinds[k].make();
}
