// Tests the registration of a tenant and its requests for a measurement, with a daemon that never answers. Runs on the
// simulated driver.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "tenant.h"

// So small that each allocation is near the limit, and may request a measurement.
#define LIMIT (256 * MIB)
#define CONTEXT (16 * MIB)

static int listener;

static void begin(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	CUcontext context;

	snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", tenant_directory);
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 128), 0);
	setenv("VIRGATE_SOCKET", address.sun_path, 1);
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

// Receives all messages that have arrived, and returns their number.
static int receive_messages(void)
{
	char message[512];
	int count = 0, connection;

	while ((connection = accept(listener, NULL, NULL)) >= 0) {
		count += recv(connection, message, sizeof message, MSG_DONTWAIT) > 0;
		close(connection);
	}
	return count;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void silence_body(void)
{
	uint64_t start;
	CUdeviceptr address;

	begin();
	receive_messages();
	start = now_ms();
	while (now_ms() - start < 1000) {
		CHECK_INT(cuMemAlloc_v2(&address, 2 * MIB), CUDA_SUCCESS);
		CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	}
	int count = receive_messages();
	CHECK(count >= 2); // the interposer tries again
	CHECK(count <= 6); // each attempt takes 20 ms
}

TEST(a_hanging_daemon_costs_a_tenth_of_the_time)
{
	TENANT(LIMIT, CONTEXT, silence_body);
}

static void closed_body(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle memory;
	CUdeviceptr address;
	int exported;

	begin();
	CHECK_INT(cuMemCreate(&memory, 2 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemExportToShareableHandle(&exported, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_SUCCESS);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != listener)
			close(fd);
	receive_messages();
	usleep(300000);
	// This call may fail, since the descriptors of the simulated driver are closed, too.
	cuMemAlloc_v2(&address, 2 * MIB);
	CHECK(receive_messages() > 0);
	usleep(300000);
	// The numbers of the closed descriptors now belong to other files.
	for (int fd = 3; fd < 1024; fd++)
		if (fd != listener)
			dup2(listener, fd);
	cuMemAlloc_v2(&address, 2 * MIB);
	CHECK(receive_messages() > 0);
}

TEST(tenants_that_close_all_descriptors_are_still_measured)
{
	TENANT(LIMIT, CONTEXT, closed_body);
}
