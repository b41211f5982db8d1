// Tests GPUs as NVML describes them. Runs on a real GPU too: the checks hold on any machine with a GPU.
#include "core_test.h"

#include <pthread.h>
#include <stdbool.h>

static struct vg_gpu *first_gpu(void)
{
	struct vg_gpu *gpu;

	OK(vg_gpu_by_index(0, &gpu));
	return gpu;
}

// Runs `body` in a child, and fails the test unless it exits with 0.
static void in_child(void (*body)(void))
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		body();
		_exit(0);
	}
	CHECK(child > 0);
	CHECK_CHILD(child);
}

static void ask_without_library(void)
{
	struct vg_gpu *gpu = (void *)1;
	unsigned count = 77;

	setenv("VIRGATE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
	REFUSED(vg_gpu_count(&count), VG_NO_DRIVER, "/nowhere/libnvidia-ml.so.1");
	REFUSED(vg_gpu_by_index(0, &gpu), VG_NO_DRIVER, "/nowhere");
	CHECK_STR(vg_last_error()->function, "vg_gpu_by_index");
	CHECK_INT(count, 77);
	CHECK(gpu == (void *)1);
	if (getenv("VIRGATE_LEDGER"))
		return; // in a vGPU, the interposer searches for NVML only once, so later calls fail, too
	// Without the variable, the next call finds the library.
	unsetenv("VIRGATE_NVML");
	OK(vg_gpu_count(&count));
	CHECK(count > 0 && count != 77);
}

// This test must be the first one, since the others load the library.
TEST(no_library)
{
	in_child(ask_without_library);
}

TEST(versions)
{
	struct vg_system_version driver, nvml;
	int major = 0, minor = -1;
	char branch[80];

	OK(vg_system_user_driver_version(&major, &minor));
	CHECK(major >= 12 && minor >= 0);
	OK(vg_system_user_driver_version(NULL, NULL));
	OK(vg_system_kernel_driver_version(&driver));
	CHECK(driver.count >= 2);
	CHECK(driver.part[0] >= 570);
	OK(vg_system_nvml_version(&nvml));
	CHECK(nvml.count >= 2);
	CHECK(nvml.part[0] >= 12);
	OK(vg_system_driver_branch(branch, sizeof branch));
	CHECK(branch[0] == 'r');
	REFUSED(vg_system_driver_branch(branch, 1), VG_LIMIT, "there are 1");
	REFUSED(vg_system_driver_branch(NULL, 80), VG_INVALID, "NULL");
	REFUSED(vg_system_kernel_driver_version(NULL), VG_INVALID, "NULL");
	REFUSED(vg_system_nvml_version(NULL), VG_INVALID, "NULL");
}

TEST(finding)
{
	struct vg_gpu *gpus[64], *same, *none = (void *)1;
	unsigned count;
	size_t all;

	OK(vg_gpu_count(&count));
	CHECK(count > 0);
	OK(vg_gpu_all(NULL, 0, &all));
	CHECK_INT(all, count);
	OK(vg_gpu_all(gpus, 64, &all));
	CHECK_INT(all, count);
	for (unsigned i = 0; i < count; i++) {
		OK(vg_gpu_by_index(i, &same));
		CHECK(same == gpus[i]);
		OK(vg_gpu_by_uuid(vg_gpu_uuid(gpus[i]), &same));
		CHECK(same == gpus[i]);
		OK(vg_gpu_by_uuid(vg_gpu_uuid_without_prefix(gpus[i]), &same));
		CHECK(same == gpus[i]);
		OK(vg_gpu_by_pci_bus_id(vg_gpu_pci_bus_id(gpus[i]), &same));
		CHECK(same == gpus[i]);
		CHECK(vg_gpu_name(gpus[i])[0]);
	}
	REFUSED(vg_gpu_by_index(count, &none), VG_INVALID, "there is no GPU");
	REFUSED(vg_gpu_by_index(-1u, &none), VG_INVALID, "there is no GPU 4294967295");
	REFUSED(vg_gpu_by_index(0, NULL), VG_INVALID, "NULL");
	REFUSED(vg_gpu_by_uuid("GPU-00000000-0000-0000-0000-000000000000", &none), VG_NOT_FOUND,
		"there is no GPU-0000");
	REFUSED(vg_gpu_by_uuid("MIG-00000000-0000-0000-0000-000000000000", &none), VG_NOT_FOUND,
		"there is no MIG-0000");
	REFUSED(vg_gpu_by_uuid("", &none), VG_INVALID, "hexadecimal");
	REFUSED(vg_gpu_by_uuid("GPU-", &none), VG_INVALID, "hexadecimal");
	REFUSED(vg_gpu_by_uuid("GPU-00000000-0000-0000-0000-0000000000000", &none), VG_INVALID, "hexadecimal");
	REFUSED(vg_gpu_by_uuid(NULL, &none), VG_INVALID, "uuid is NULL");
	REFUSED(vg_gpu_by_uuid(vg_gpu_uuid(gpus[0]), NULL), VG_INVALID, "NULL");
	REFUSED(vg_gpu_by_pci_bus_id("0000:fe:1f.0", &none), VG_NOT_FOUND, "0000:fe:1f.0");
	REFUSED(vg_gpu_by_pci_bus_id(NULL, &none), VG_INVALID, "NULL");
	CHECK(none == (void *)1);
	REFUSED(vg_gpu_all(NULL, 3, &all), VG_INVALID, "the array of GPUs is NULL");
	REFUSED(vg_gpu_all(gpus, 1, NULL), VG_INVALID, "NULL");
	REFUSED(vg_gpu_count(NULL), VG_INVALID, "NULL");
	CHECK_STR(vg_gpu_uuid(NULL), "");
	CHECK_STR(vg_gpu_uuid_without_prefix(NULL), "");
	CHECK_STR(vg_gpu_name(NULL), "");
	CHECK_STR(vg_gpu_pci_bus_id(NULL), "");
}

TEST(memory)
{
	struct vg_gpu *gpu = first_gpu();
	struct vg_gpu_utilization rates;
	struct vg_gpu_memory memory;
	struct vg_gpu_bar1 bar1;

	OK(vg_gpu_memory(gpu, &memory));
	CHECK(memory.total > 256u << 20);
	CHECK(memory.free <= memory.total && memory.used <= memory.total);
	CHECK(!memory.reserved_known || memory.reserved <= memory.total);
	CHECK(memory.free + memory.used <= memory.total);
	OK(vg_gpu_bar1(gpu, &bar1));
	CHECK(bar1.total > 0 && bar1.free <= bar1.total && bar1.used <= bar1.total);
	OK(vg_gpu_utilization(gpu, &rates));
	CHECK(rates.gpu <= 100 && rates.memory <= 100);
	REFUSED(vg_gpu_memory(NULL, &memory), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_memory(gpu, NULL), VG_INVALID, "ret_memory is NULL");
	REFUSED(vg_gpu_bar1(NULL, &bar1), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_bar1(gpu, NULL), VG_INVALID, "NULL");
	REFUSED(vg_gpu_utilization(NULL, &rates), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_utilization(gpu, NULL), VG_INVALID, "NULL");
}

static bool is_listed(struct vg_gpu *gpu, pid_t pid)
{
	struct vg_gpu_process processes[256];
	size_t count;

	OK(vg_gpu_processes(gpu, processes, 256, &count));
	for (size_t i = 0; i < count; i++) {
		CHECK(processes[i].pid > 0);
		CHECK(processes[i].memory_known || processes[i].memory == 0);
		if (processes[i].pid == pid)
			return true;
	}
	return false;
}

// The tests above created no context: NVML lists this process on no GPU.
TEST(calls_create_no_context)
{
	struct vg_device *device;
	struct vg_gpu *same;
	unsigned count;

	OK(vg_gpu_count(&count));
	for (unsigned i = 0; i < count; i++) {
		OK(vg_gpu_by_index(i, &same));
		CHECK(!is_listed(same, getpid()));
	}
	OK(vg_device_get(0, &device));
	OK(vg_gpu_of_device(device, &same));
	CHECK_STR(vg_gpu_uuid_without_prefix(same), vg_device_uuid(device));
	CHECK(!is_listed(same, getpid()));
	REFUSED(vg_gpu_of_device(NULL, &same), VG_INVALID, "device is NULL");
	REFUSED(vg_gpu_of_device(device, NULL), VG_INVALID, "ret_gpu is NULL");
}

TEST(processes)
{
	struct vg_gpu_process one;
	struct vg_device *device;
	struct vg_gpu *gpu;
	char name[256];
	size_t count, some;

	OK(vg_device_get(0, &device));
	OK(vg_device_memory_info(device, &some, NULL));
	struct vg_context *context = first_context();
	OK(vg_gpu_of_device(device, &gpu));
	OK(vg_gpu_processes(gpu, NULL, 0, &count));
	CHECK(count > 0);
	if (is_listed(gpu, getpid())) { // in a PID namespace, NVML may give the process another pid
		OK(vg_system_process_name(getpid(), name, sizeof name));
		CHECK_CONTAINS(name, "test-core-system");
		strcpy(name + 20, "untouched");
		REFUSED(vg_system_process_name(getpid(), name + 20, 10), VG_LIMIT, "bytes, and there are 10");
		CHECK_STR(name + 20, "untouched");
	}
	REFUSED(vg_gpu_processes(NULL, &one, 1, &count), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_processes(gpu, &one, 1, NULL), VG_INVALID, "ret_count is NULL");
	REFUSED(vg_gpu_processes(gpu, NULL, 1, &count), VG_INVALID, "the array of processes is NULL");
	REFUSED(vg_system_process_name(0, name, sizeof name), VG_INVALID, "pid 0");
	REFUSED(vg_system_process_name(-5, name, sizeof name), VG_INVALID, "pid -5");
	REFUSED(vg_system_process_name(1, NULL, sizeof name), VG_INVALID, "NULL");
	REFUSED(vg_system_process_name(1, name, 0), VG_INVALID, "0 bytes");
	enum vg_status status = vg_system_process_name(0x7ffffff0, name, sizeof name); // no process has this pid
	CHECK(status == VG_NOT_FOUND || status == VG_NVML);
	vg_context_destroy(context);
}

TEST(cuda_device)
{
	struct vg_device *device = NULL;
	struct vg_gpu *gpu = first_gpu();

	enum vg_status status = vg_gpu_to_device(gpu, &device);
	if (status) // CUDA does not show this GPU
		CHECK_INT(status, VG_NOT_FOUND);
	else
		CHECK_STR(vg_device_uuid(device), vg_gpu_uuid_without_prefix(gpu));
	REFUSED(vg_gpu_to_device(NULL, &device), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_to_device(gpu, NULL), VG_INVALID, "ret_device is NULL");
}

static struct vg_gpu *before_fork;

static void ask_after_fork(void)
{
	struct vg_gpu_memory memory;

	OK(vg_gpu_memory(before_fork, &memory));
	CHECK(memory.total > 0);
	CHECK(first_gpu() == before_fork);
}

TEST(after_fork)
{
	before_fork = first_gpu();
	in_child(ask_after_fork);
	ask_after_fork();
}

static void *ask_often(void *failed)
{
	struct vg_gpu_memory memory;
	struct vg_gpu *gpu;

	for (int i = 0; i < 200; i++)
		if (vg_gpu_by_index(0, &gpu) || gpu != before_fork || vg_gpu_memory(gpu, &memory))
			*(int *)failed = 1;
	return NULL;
}

static void ask_in_threads(void)
{
	int failed[8] = {0};
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, ask_often, &failed[i]), 0);
	for (int i = 0; i < 8; i++) {
		CHECK_INT(pthread_join(threads[i], NULL), 0);
		CHECK_INT(failed[i], 0);
	}
}

TEST(threads)
{
	before_fork = first_gpu();
	ask_in_threads();
}

// A forked child must initialise NVML again. Several threads of the child make their first calls at the same time.
TEST(threads_of_a_child)
{
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer starts no threads after a fork beside threads");
#endif
	before_fork = first_gpu();
	in_child(ask_in_threads);
}

TEST(error_names)
{
	CHECK_STR(vg_nvml_error_name(0), "NVML_SUCCESS");
	CHECK_STR(vg_nvml_error_name(VG_NVML_ERROR_GPU_IS_LOST), "NVML_ERROR_GPU_IS_LOST");
	CHECK_STR(vg_nvml_error_name(999), "NVML_ERROR_UNKNOWN");
	CHECK_STR(vg_nvml_error_name(12345), "an unknown NVML error");
}
