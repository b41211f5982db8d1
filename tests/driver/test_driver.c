// Tests the loader's table and its failures. Each case runs in a child, since a process loads a driver only once.
#include "driver/driver.h"
#include "driver/nvml.h"
#include "system/system.h"
#include "test.h"

static char problem[512];

static void run_in_child(void (*run)(void))
{
	pid_t child = fork();

	if (child == 0) {
		unsetenv("VIRGATE_SIM");
		run();
		_exit(0);
	}
	CHECK_CHILD(child);
}

static void load_old(void)
{
	const struct vg_driver *driver, *again;
	size_t missing = 0, optional = 0;

	setenv("VIRGATE_DRIVER", OLD_DRIVER, 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), 0);
	CHECK_STR(driver->path, OLD_DRIVER);
	CHECK(!driver->simulated);
	CHECK_INT(driver->cuInit(0), 706);
	CHECK_INT(driver->cuMemAlloc_v2(NULL, 1), 713);
	CHECK_INT(driver->cuCtxSynchronize_v2(NULL), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(driver->missing[VG_ENTRY_cuCtxSynchronize_v2]);
	for (int i = 0; i < VG_ENTRY_COUNT; i++)
		missing += driver->missing[i];
	enum { is_required = 0, is_optional = 1 };
#define ENTRY(abi, api, version, stream, family, need) optional += is_##need;
#include "abi/entries.def"
	CHECK_INT(missing, optional);
	CHECK_INT(vg_driver_load(&again, problem, sizeof problem), 0);
	CHECK(again == driver);
}

TEST(missing_optional_entry_returns_not_supported)
{
	run_in_child(load_old);
}

static void load_broken(void)
{
	const struct vg_driver *driver;

	setenv("VIRGATE_DRIVER", BROKEN_DRIVER, 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), VG_DRIVER_UNSUITED);
	CHECK_CONTAINS(problem, "has no cuMemAlloc_v2: a driver of version 570 or later is needed");
	setenv("VIRGATE_DRIVER", OLD_DRIVER, 1); // a failed load is not final, so try another driver
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), 0);
}

TEST(driver_without_required_entry_is_refused)
{
	run_in_child(load_broken);
}

static void load_absent(void)
{
	const struct vg_driver *driver;
	const struct vg_nvml *nvml;

	setenv("VIRGATE_DRIVER", "/nowhere/libcuda.so.1", 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), VG_DRIVER_ABSENT);
	CHECK_CONTAINS(problem, "no CUDA driver: /nowhere/libcuda.so.1");
	setenv("VIRGATE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
	CHECK_INT(vg_nvml_load(&nvml, problem, sizeof problem), 1);
	CHECK_CONTAINS(problem, "no NVML: /nowhere/libnvidia-ml.so.1");
	// If the simulated driver is missing, no other driver replaces it.
	unsetenv("VIRGATE_DRIVER");
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_LIBDIR", "/nowhere", 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), VG_DRIVER_ABSENT);
	CHECK_CONTAINS(problem, "VIRGATE_SIM is set, but the simulator's libcuda.so.1 is not there");
}

TEST(missing_driver_is_reported)
{
	run_in_child(load_absent);
}

static void load_simulated(void)
{
	const struct vg_driver *driver;
	const struct vg_nvml *nvml;

	unsetenv("VIRGATE_DRIVER");
	unsetenv("VIRGATE_NVML");
	unsetenv("VIRGATE_LIBDIR");
	setenv("VIRGATE_SIM", "1", 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), 0);
	CHECK(driver->simulated);
	CHECK_STR(strrchr(driver->path, '/') - strlen("/sim"), "/sim/libcuda.so.1");
	CHECK_INT(vg_nvml_load(&nvml, problem, sizeof problem), 0);
	CHECK(nvml->simulated);
}

TEST(virgate_sim_finds_simulator_of_build_tree)
{
	run_in_child(load_simulated);
}

static void load_real(void)
{
	const struct vg_driver *driver;

	setenv("VIRGATE_SIM", "0", 1);
	setenv("VIRGATE_DRIVER", OLD_DRIVER, 1);
	CHECK_INT(vg_driver_load(&driver, problem, sizeof problem), 0);
	CHECK(!driver->simulated);
}

TEST(virgate_sim_0_loads_real_driver)
{
	run_in_child(load_real);
}

static void system_after_fork(void)
{
	char file_name[] = "/tmp/test-system-XXXXXX";
	static struct vg_system_process processes[VG_SYSTEM_PROCESSES];
	struct vg_system *system;
	uint64_t used;
	size_t count;

	FILE *file = fdopen(mkstemp(file_name), "w");
	setenv("FAKE_NVML", file_name, 1);
	setenv("VIRGATE_NVML", FAKE_NVML_LIBRARY, 1);
	CHECK_INT(vg_system_open(&system, problem, sizeof problem), 1); // no GPU yet
	CHECK_CONTAINS(problem, "NVML does not start: NVML_ERROR_");
	fprintf(file, "gpu 1000\ngpu 2000\nprocess 1 77 500\nprocess 1 78 18446744073709551615\n");
	fclose(file);
	CHECK_INT(vg_system_open(&system, problem, sizeof problem), 0);
	CHECK_INT(vg_system_device_count(system), 2);
	CHECK_INT(vg_system_device(system, 1)->memory, 2000);
	CHECK_INT(vg_system_device(system, 1)->compute_major, 0); // this NVML does not report the compute capability
	CHECK_STR(vg_system_device(system, 0)->uuid_text, "GPU-00000000-0000-0000-0000-000000000001");
	CHECK_STR(vg_system_driver_version(system), "580.1");
	for (int child = 0; child < 2; child++) {
		CHECK_INT(vg_system_processes(system, 1, processes, &count), 0);
		CHECK_INT(count, 2);
		CHECK_INT(processes[0].pid, 77);
		CHECK_INT(processes[0].memory, 500);
		CHECK(!processes[1].memory_known);
		CHECK_INT(vg_system_memory_used(system, 0, &used), 0);
		CHECK(vg_system_memory_used(system, 2, &used) < 0);
		if (child)
			break;
		pid_t pid = fork();
		if (pid > 0) {
			CHECK_CHILD(pid);
			break;
		}
	}
	unlink(file_name);
	vg_system_close(system);
}

TEST(devices_and_processes_are_read_also_after_fork)
{
	run_in_child(system_after_fork);
}

TEST(uuids_are_parsed_and_formatted)
{
	uint8_t uuid[16];
	char text[VG_SYSTEM_UUID_TEXT];

	CHECK(vg_system_uuid_parse("GPU-01234567-89ab-CDEF-0123-456789abcdef", uuid));
	vg_system_uuid_format(uuid, text);
	CHECK_STR(text, "GPU-01234567-89ab-cdef-0123-456789abcdef");
	CHECK(!vg_system_uuid_parse("", uuid));
	CHECK(!vg_system_uuid_parse("GPU-", uuid));
	CHECK(!vg_system_uuid_parse("MIG-01234567-89ab-cdef-0123-456789abcdef", uuid));
	CHECK(!vg_system_uuid_parse("GPU-01234567-89ab-cdef-0123-456789abcde", uuid));
	CHECK(!vg_system_uuid_parse("GPU-01234567-89ab-cdef-0123-456789abcdef0", uuid));
	CHECK(!vg_system_uuid_parse("GPU-0123456789ab-cdef-0123-456789abcdef-", uuid));
}
