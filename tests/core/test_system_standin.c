// Tests queries to the stand-in NVML of nvml_standin.c: fans, MIG devices, events, a lost GPU, functions that an older
// library lacks.
#include "core_test.h"

#include <pthread.h>
#include <stdbool.h>

static struct vg_gpu *gpu, *part;

// Chooses the stand-in library before any NVML is loaded.
__attribute__((constructor)) static void choose(void)
{
	char path[4200];

	ssize_t length = readlink("/proc/self/exe", path, 4096);
	path[length < 0 ? 0 : length] = '\0';
	char *name = strrchr(path, '/');
	if (name)
		strcpy(name, "/libnvml-standin.so");
	setenv("VIRGATE_NVML", path, 1);
}

static void begin(void)
{
	if (access(getenv("VIRGATE_NVML"), R_OK) != 0)
		SKIP("no %s: built for the build directory's tests only", getenv("VIRGATE_NVML"));
	OK(vg_gpu_by_index(0, &gpu));
	OK(vg_gpu_by_uuid("MIG-66666666-7777-8888-9999-aaaaaaaaaaaa", &part));
}

// Checks the error of a child in which NVML does not start.
static void expect_start_failure(const char *result, enum vg_status status, const char *text)
{
	if (access(getenv("VIRGATE_NVML"), R_OK) != 0)
		SKIP("no %s: built for the build directory's tests only", getenv("VIRGATE_NVML"));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		unsigned count;
		setenv("STANDIN_INIT", result, 1);
		REFUSED(vg_gpu_count(&count), status, text);
		CHECK_INT(vg_last_error()->code, atoi(result));
		_exit(0);
	}
	CHECK_CHILD(child);
}

TEST(start)
{
	expect_start_failure("9", VG_NO_DRIVER, "NVML_ERROR_DRIVER_NOT_LOADED");
	expect_start_failure("18", VG_NO_DRIVER, "of different versions");
	expect_start_failure("4", VG_DENIED, "NVML_ERROR_NO_PERMISSION");
	expect_start_failure("999", VG_NVML, "NVML_ERROR_UNKNOWN");
}

static void *ask_once(void *failed)
{
	unsigned count;

	*(int *)failed = vg_gpu_count(&count) != VG_OK;
	return NULL;
}

static void fork_while_nvml_starts(void)
{
	int failed = 1;
	pthread_t thread;
	unsigned count;

	alarm(20);
	setenv("STANDIN_SLOW", "100", 1);
	CHECK_INT(pthread_create(&thread, NULL, ask_once, &failed), 0);
	usleep(20000);
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		OK(vg_gpu_count(&count));
		_exit(0);
	}
	CHECK_CHILD(child);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(failed, 0);
}

// Forks while another thread initialises NVML. The child must find the lock free.
TEST(fork_beside_a_start)
{
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer takes a thread that is not in the child for a leak");
#endif
	begin();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		fork_while_nvml_starts();
		_exit(0);
	}
	CHECK_CHILD(child);
}

TEST(versions)
{
	struct vg_system_version version;

	begin();
	OK(vg_system_kernel_driver_version(&version));
	CHECK(version.count == 3 && version.part[0] == 550 && version.part[1] == 54 && version.part[2] == 14);
	setenv("STANDIN_VERSION", "five", 1);
	REFUSED(vg_system_kernel_driver_version(&version), VG_NVML, "\"five\"");
	setenv("STANDIN_VERSION", "1.2.3.4.5.6.7", 1);
	REFUSED(vg_system_kernel_driver_version(&version), VG_NVML, "1.2.3.4.5.6.7");
	unsetenv("STANDIN_VERSION");
	CHECK(version.count == 3 && version.part[0] == 550);
}

// Tests functions that this NVML lacks. Either only the query that needs the function fails, or the library uses an
// older function.
TEST(missing_entries)
{
	struct vg_gpu_repair repair = {7, 7};
	struct vg_gpu_memory memory;
	struct vg_gpu_pci_link link;
	struct vg_gpu_pci pci;
	unsigned number = 77;

	begin();
	REFUSED(vg_gpu_repair(gpu, &repair), VG_UNSUPPORTED,
		"nvmlDeviceGetRepairStatus: the NVML of this machine's driver has no such");
	CHECK_INT(vg_last_error()->code, VG_NVML_ERROR_FUNCTION_NOT_FOUND);
	CHECK_INT(repair.tpc_pending, 7);
	REFUSED(vg_gpu_module_id(gpu, &number), VG_UNSUPPORTED, "nvmlDeviceGetModuleId");
	CHECK_INT(number, 77);
	OK(vg_gpu_memory(gpu, &memory));
	CHECK(memory.total == 1000 && memory.free == 600 && memory.used == 400 && !memory.reserved_known);
	OK(vg_gpu_pci(gpu, &pci));
	CHECK(pci.vendor_id == 0x10de && pci.device_id == 0x1234 && pci.subsystem_id == 7 && pci.base_class == -1);
	CHECK_STR(pci.bus_id, "00000000:3B:00.0");
	OK(vg_gpu_pci_link(gpu, &link));
	CHECK(link.generation == 4 && link.width == -1 && link.max_generation == -1 && link.gpu_max_generation == -1);
}

TEST(values_newer_than_the_library)
{
	enum vg_gpu_architecture architecture;
	enum vg_gpu_addressing mode;
	const char *brand;

	begin();
	OK(vg_gpu_brand(gpu, &brand));
	CHECK_STR(brand, "GeForce RTX");
	OK(vg_gpu_brand(part, &brand));
	CHECK_STR(brand, "Unknown");
	OK(vg_gpu_architecture(gpu, &architecture));
	CHECK_INT(architecture, VG_GPU_ARCHITECTURE_UNKNOWN);
	OK(vg_gpu_addressing_mode(gpu, &mode));
	CHECK_INT(mode, VG_GPU_ADDRESSING_ATS);
}

TEST(processes)
{
	struct vg_gpu_process processes[100];
	size_t count = 99;

	begin();
	OK(vg_gpu_processes(gpu, processes, 100, &count));
	CHECK(count > 16);
	CHECK(processes[0].pid == 1 && !processes[0].memory_known && processes[0].memory == 0 &&
	      !processes[0].in_instance);
	CHECK(processes[1].memory_known && processes[1].memory == 10 && processes[1].in_instance);
	CHECK(processes[1].gpu_instance == 5 && processes[1].compute_instance == 6);
	size_t all = count;
	REFUSED(vg_gpu_processes(gpu, processes, 3, &count), VG_LIMIT, "processes, and the array is for 3");
	CHECK_INT(count, all);
}

TEST(mig)
{
	struct vg_gpu_attributes attributes;
	struct vg_gpu *parts[7], *found;
	struct vg_gpu_mig mig;
	struct vg_gpu_pci pci;
	size_t count;

	begin();
	OK(vg_gpu_mig(gpu, &mig));
	CHECK(!mig.is_device && mig.mode == 1 && mig.pending == 0 && mig.most_devices == 7);
	OK(vg_gpu_mig(part, &mig));
	CHECK(mig.is_device && mig.mode == 1 && mig.most_devices == 7);
	OK(vg_gpu_mig_devices(gpu, parts, 7, &count));
	CHECK(count == 1 && parts[0] == part);
	OK(vg_gpu_mig_devices(part, NULL, 0, &count));
	CHECK_INT(count, 0);
	OK(vg_gpu_mig_device(gpu, 3, &found));
	CHECK(found == part);
	REFUSED(vg_gpu_mig_device(gpu, 0, &found), VG_NOT_FOUND, "has no MIG device 0");
	REFUSED(vg_gpu_mig_device(gpu, 7, &found), VG_INVALID, "can have 7 MIG devices");
	OK(vg_gpu_mig_parent(part, &found));
	CHECK(found == gpu);
	OK(vg_gpu_attributes(part, &attributes));
	CHECK(attributes.multiprocessors == 16 && attributes.copy_engines == 2 && attributes.decoders == 3 &&
	      attributes.encoders == 4 && attributes.jpeg_engines == 5 && attributes.ofa_engines == 6 &&
	      attributes.gpu_instance_slices == 7 && attributes.compute_instance_slices == 8 &&
	      attributes.memory_mib == 9000);
	REFUSED(vg_gpu_attributes(gpu, &attributes), VG_UNSUPPORTED, "NOT_SUPPORTED");
	REFUSED(vg_gpu_pci(part, &pci), VG_UNSUPPORTED, "is a MIG device");
	CHECK_STR(vg_gpu_pci_bus_id(part), "");
	OK(vg_gpu_set_mig_mode(gpu, 1));
	REFUSED(vg_gpu_set_mig_mode(gpu, 0), VG_BUSY, "next reset");
}

TEST(settings)
{
	struct vg_gpu_fan fan;
	int flag;

	begin();
	OK(vg_gpu_set_persistence_mode(gpu, 1));
	OK(vg_gpu_persistence_mode(gpu, &flag));
	CHECK_INT(flag, 1);
	OK(vg_gpu_fan(gpu, 1, &fan));
	CHECK(fan.speed == 30 && fan.rpm == 1001 && fan.min_speed == 20 && fan.max_speed == 90 &&
	      fan.target_speed == -1);
	CHECK_INT(fan.policy, VG_GPU_FAN_TEMPERATURE_CONTROLLED);
	OK(vg_gpu_set_fan_speed(gpu, 1, 100));
	OK(vg_gpu_fan(gpu, 1, &fan));
	CHECK(fan.speed == 100 && fan.policy == VG_GPU_FAN_MANUAL);
	OK(vg_gpu_set_default_fan_speed(gpu, 1));
	OK(vg_gpu_fan(gpu, 1, &fan));
	CHECK(fan.speed == 30 && fan.policy == VG_GPU_FAN_TEMPERATURE_CONTROLLED);
	REFUSED(vg_gpu_fan(gpu, 2, &fan), VG_INVALID, "has 2 fans: there is no number 2");
	REFUSED(vg_gpu_set_fan_speed(gpu, 2, 50), VG_INVALID, "2 fans");
	REFUSED(vg_gpu_set_default_fan_speed(gpu, -1u), VG_INVALID, "2 fans");
}

TEST(locations)
{
	enum vg_gpu_topology topology;
	enum vg_gpu_p2p_status status;
	struct vg_gpu_nvlink link;
	struct vg_gpu *near[2];
	unsigned cpus[8];
	size_t count;

	begin();
	OK(vg_gpu_nvlink(gpu, 0, &link));
	CHECK(link.active == 1 && link.version_major == 4 && link.version_minor == 0);
	OK(vg_gpu_nvlink(gpu, 1, &link));
	CHECK(link.version_major == 2 && link.version_minor == 2);
	OK(vg_gpu_nvlink(gpu, 2, &link)); // the GPU reports a version newer than the library knows
	CHECK(link.active == 0 && link.version_major == -1);
	OK(vg_gpu_nvlink(gpu, 3, &link)); // no version
	CHECK_INT(link.version_major, -1);
	REFUSED(vg_gpu_nvlink(gpu, 4, &link), VG_UNSUPPORTED, "nvmlDeviceGetNvLinkState");
	OK(vg_gpu_cpu_affinity(gpu, VG_GPU_AFFINITY_NODE, cpus, 8, &count));
	CHECK(count == 4 && cpus[0] == 0 && cpus[1] == 2 && cpus[2] == 63 && cpus[3] == 128);
	OK(vg_gpu_nearest(gpu, VG_GPU_TOPOLOGY_SINGLE, near, 2, &count));
	CHECK(count == 1 && near[0] == part);
	OK(vg_gpu_common_ancestor(gpu, part, &topology));
	CHECK_INT(topology, VG_GPU_TOPOLOGY_MULTIPLE);
	OK(vg_gpu_p2p_status(gpu, part, VG_GPU_P2P_ATOMICS, &status));
	CHECK_STR(vg_gpu_p2p_status_name(status), "ioh_topology_not_supported");
	OK(vg_gpu_p2p_status(gpu, part, VG_GPU_P2P_PCI, &status));
	CHECK_INT(status, VG_GPU_P2P_UNKNOWN);
}

TEST(states)
{
	struct vg_gpu_thermal_sensor sensors[3];
	struct vg_gpu_cooler cooler;
	unsigned states[16];
	int state, enabled, by_default, celsius = 77;
	size_t count;

	begin();
	OK(vg_gpu_performance_state(gpu, &state));
	CHECK_INT(state, -1);
	OK(vg_gpu_supported_performance_states(gpu, states, 16, &count));
	CHECK(count == 3 && states[0] == 0 && states[1] == 2 && states[2] == 8);
	OK(vg_gpu_auto_boost(gpu, &enabled, &by_default));
	CHECK(enabled == 0 && by_default == 1);
	OK(vg_gpu_auto_boost(gpu, NULL, NULL));
	OK(vg_gpu_thermal_sensors(gpu, VG_GPU_THERMAL_ALL, sensors, 3, &count));
	CHECK(count == 2 && sensors[0].default_min_celsius == -10 && sensors[1].celsius == 55);
	CHECK_INT(sensors[1].target, VG_GPU_THERMAL_MEMORY);
	OK(vg_gpu_cooler(gpu, &cooler));
	CHECK(cooler.signal == VG_GPU_COOLER_VARIABLE && cooler.targets == (VG_GPU_COOLS_GPU | VG_GPU_COOLS_MEMORY));
	REFUSED(vg_gpu_temperature(gpu, &celsius), VG_NVML, "NVML_ERROR_GPU_IS_LOST");
	CHECK_INT(vg_last_error()->code, VG_NVML_ERROR_GPU_IS_LOST);
	CHECK_INT(celsius, 77);
}

TEST(board)
{
	struct vg_gpu_inforom inforom;

	begin();
	OK(vg_gpu_inforom(gpu, &inforom));
	CHECK_STR(inforom.board_part_number, "900-1");
	CHECK_STR(inforom.image_version, "");
	CHECK_STR(inforom.oem_version, "2.1");
	CHECK_STR(inforom.ecc_version, "6.16");
	CHECK_STR(inforom.den_version, "");
	CHECK(!inforom.checksum_known && inforom.flush_known && inforom.flush_time == 1234567);
	CHECK_INT(inforom.flush_duration_us, 89);
	// One of the figures that this call collects reports that the GPU is lost.
	REFUSED(vg_gpu_inforom(part, &inforom), VG_NVML, "NVML_ERROR_GPU_IS_LOST");
	REFUSED(vg_gpu_validate_inforom(gpu), VG_NVML, "NVML_ERROR_CORRUPTED_INFOROM");
}

TEST(fields)
{
	struct vg_gpu_field fields[] = {{.id = 0}, {.id = 1}, {.id = 3}, {.id = 4, .scope = 9},
					{.id = 5}, {.id = 6}, {.id = 50}};

	begin();
	OK(vg_gpu_fields(gpu, fields, 7));
	CHECK(fields[0].type == VG_GPU_FIELD_REAL && fields[0].value.real == 2.5);
	CHECK(fields[1].type == VG_GPU_FIELD_UNSIGNED && fields[1].value.number == 0xffffffffu);
	CHECK(fields[2].type == VG_GPU_FIELD_UNSIGNED && fields[2].value.number == ~0ull);
	CHECK(fields[3].type == VG_GPU_FIELD_SIGNED && fields[3].value.signed_number == -1);
	CHECK(fields[3].time == 1003 && fields[3].latency_us == 9);
	CHECK(fields[4].type == VG_GPU_FIELD_SIGNED && fields[4].value.signed_number == -7);
	CHECK(fields[5].type == VG_GPU_FIELD_UNSIGNED && fields[5].value.number == 65535);
	CHECK_INT(fields[6].status, VG_UNSUPPORTED);
	OK(vg_gpu_check_fields(fields, 6));
	REFUSED(vg_gpu_check_fields(fields, 7), VG_UNSUPPORTED, "field 50");
	OK(vg_gpu_clear_fields(gpu, fields, 2));
	CHECK(fields[0].status == VG_OK && fields[0].value.real == 2.5);
}

static void wait_in_child(struct vg_gpu_events *events)
{
	struct vg_gpu_event event;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		REFUSED(vg_gpu_events_wait(events, 1, &event), VG_STATE, "after fork, create another");
		REFUSED(vg_gpu_events_add(events, gpu, 8), VG_STATE, "after fork");
		vg_gpu_events_destroy(events);
		_exit(0);
	}
	CHECK_CHILD(child);
}

TEST(events)
{
	struct vg_gpu_events *events, *none = NULL;
	struct vg_gpu_event event;

	begin();
	OK(vg_gpu_events_create(gpu, VG_GPU_EVENT_XID_CRITICAL_ERROR, &events));
	wait_in_child(events);
	// The first two calls of nvmlEventSetWait() return without an event. The library must call it again.
	OK(vg_gpu_events_wait(events, 0, &event));
	CHECK(event.gpu == gpu && event.type == VG_GPU_EVENT_XID_CRITICAL_ERROR && event.data == 79);
	CHECK(event.in_instance && event.gpu_instance == 3 && event.compute_instance == 1);
	OK(vg_gpu_events_add(events, part, VG_GPU_EVENT_CLOCK));
	OK(vg_gpu_events_wait(events, 1, &event));
	CHECK(!event.in_instance && event.gpu_instance == 0);
	REFUSED(vg_gpu_events_add(events, gpu, 1), VG_UNSUPPORTED, "NOT_SUPPORTED");
	vg_gpu_events_destroy(events);
	REFUSED(vg_gpu_events_create(gpu, 1, &none), VG_UNSUPPORTED, "NOT_SUPPORTED");
	CHECK(!none);
}

TEST(system_events)
{
	struct vg_system_events *events, *none = NULL;
	struct vg_system_event seen[4];
	size_t count;

	begin();
	OK(vg_system_events_create(VG_SYSTEM_EVENT_BIND | VG_SYSTEM_EVENT_UNBIND, &events));
	REFUSED(vg_system_events_wait(events, 0, seen, 0, &count), VG_INVALID, "0 events");
	OK(vg_system_events_wait(events, 0, seen, 4, &count));
	CHECK_INT(count, 2);
	CHECK_INT(vg_last_error()->status, VG_INVALID); // a successful call keeps the last error
	CHECK(seen[0].type == VG_SYSTEM_EVENT_UNBIND && seen[0].id == 0x9900 && !seen[0].gpu);
	CHECK(seen[1].type == VG_SYSTEM_EVENT_BIND && seen[1].gpu == gpu);
	OK(vg_system_events_wait(events, 5, seen, 1, &count));
	CHECK_INT(count, 1);
	vg_system_events_destroy(events);
	REFUSED(vg_system_events_create(VG_SYSTEM_EVENT_UNBIND, &none), VG_DENIED, "NO_PERMISSION");
	CHECK(!none);
}

// Creates and destroys many sets of events; the sanitizers report leaks.
TEST(events_do_not_leak)
{
	struct vg_gpu_events *events;
	struct vg_gpu *same;

	begin();
	for (int i = 0; i < (getenv("VIRGATE_TEST_FULL") ? 100000 : 1000); i++) {
		OK(vg_gpu_events_create(gpu, VG_GPU_EVENT_CLOCK, &events));
		vg_gpu_events_destroy(events);
		OK(vg_gpu_by_index(0, &same));
		CHECK(same == gpu);
	}
}
