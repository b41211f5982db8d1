// Tests every query about a GPU. Runs on a real GPU too, where missing features are UNSUPPORTED. No test changes the
// settings of a GPU.
#include "core_test.h"

#include <sched.h>
#include <stdbool.h>

static struct vg_gpu *gpu;

// Returns whether the call succeeded. A failure is printed, and must be an error of NVML.
static bool check_answer(enum vg_status status)
{
	if (status == VG_OK)
		return true;
	printf("# %s: %s: %s\n", vg_last_error()->function, vg_status_text(status), vg_last_error()->text);
	CHECK(status == VG_UNSUPPORTED || status == VG_DENIED || status == VG_NVML);
	CHECK(vg_last_error()->code != 0);
	return false;
}

static void begin(void)
{
	OK(vg_gpu_by_index(0, &gpu));
}

TEST(identity)
{
	enum vg_gpu_architecture architecture;
	enum vg_gpu_addressing mode;
	const char *brand;
	unsigned number;
	char serial[30];
	int major, flag;

	begin();
	OK(vg_gpu_index(gpu, &number));
	CHECK_INT(number, 0);
	OK(vg_gpu_minor_number(gpu, &number));
	CHECK(number < 256);
	if (check_answer(vg_gpu_module_id(gpu, &number)))
		CHECK(number < 256);
	if (check_answer(vg_gpu_numa_node(gpu, &number)))
		CHECK(number < 1024);
	if (check_answer(vg_gpu_serial(gpu, serial, sizeof serial))) {
		CHECK(serial[0]);
		REFUSED(vg_gpu_serial(gpu, serial, 1), VG_LIMIT, "there are 1");
	}
	OK(vg_gpu_brand(gpu, &brand));
	CHECK(brand[0]);
	OK(vg_gpu_architecture(gpu, &architecture));
	OK(vg_gpu_compute_capability(gpu, &major, NULL));
	CHECK(major >= 7 && (architecture != VG_GPU_ARCHITECTURE_HOPPER || major == 9));
	OK(vg_gpu_compute_capability(gpu, NULL, NULL));
	CHECK_STR(vg_gpu_architecture_name(VG_GPU_ARCHITECTURE_HOPPER), "hopper");
	CHECK_STR(vg_gpu_architecture_name(VG_GPU_ARCHITECTURE_KEPLER), "kepler");
	CHECK_STR(vg_gpu_architecture_name(VG_GPU_ARCHITECTURE_UNKNOWN), "unknown");
	CHECK_STR(vg_gpu_architecture_name((enum vg_gpu_architecture)1), "unknown");
	CHECK_STR(vg_gpu_architecture_name((enum vg_gpu_architecture)11), "unknown");
	if (check_answer(vg_gpu_addressing_mode(gpu, &mode)))
		CHECK((unsigned)mode <= VG_GPU_ADDRESSING_ATS);
	if (check_answer(vg_gpu_c2c_enabled(gpu, &flag)))
		CHECK(flag == 0 || flag == 1);
	if (check_answer(vg_gpu_display_connected(gpu, &flag)))
		CHECK(flag == 0 || flag == 1);
	if (check_answer(vg_gpu_display_active(gpu, &flag)))
		CHECK(flag == 0 || flag == 1);
	if (check_answer(vg_gpu_persistence_mode(gpu, &flag)))
		CHECK(flag == 0 || flag == 1);
	if (check_answer(vg_gpu_ecc_mode(gpu, &flag, NULL)))
		CHECK(flag == 0 || flag == 1);
	enum vg_gpu_compute_mode compute;
	if (check_answer(vg_gpu_compute_mode(gpu, &compute)))
		CHECK(strcmp(vg_gpu_compute_mode_name(compute), "unknown") != 0);
	CHECK_STR(vg_gpu_compute_mode_name((enum vg_gpu_compute_mode)7), "unknown");
}

TEST(mig)
{
	struct vg_gpu_attributes attributes;
	struct vg_gpu *other = NULL;
	struct vg_gpu_mig mig;
	size_t count = 99;

	begin();
	OK(vg_gpu_mig(gpu, &mig));
	CHECK_INT(mig.is_device, 0);
	CHECK(mig.mode >= -1 && mig.mode <= 1 && mig.pending >= -1 && mig.pending <= 1 && mig.most_devices >= -1);
	OK(vg_gpu_mig_devices(gpu, NULL, 0, &count));
	CHECK(mig.mode == 1 || count == 0);
	REFUSED(vg_gpu_mig_parent(gpu, &other), VG_INVALID, "whole GPU");
	CHECK(vg_gpu_mig_device(gpu, 1000, &other) != VG_OK);
	CHECK_CONTAINS(vg_last_error()->text, "there is no number 1000");
	if (mig.mode != 1)
		CHECK(vg_gpu_mig_device(gpu, 0, &other) != VG_OK);
	if (check_answer(vg_gpu_attributes(gpu, &attributes))) // usually only MIG devices have these attributes
		CHECK(attributes.multiprocessors > 0);
	CHECK(!other);
}

TEST(pci)
{
	unsigned received = 0, sent = 0, replays;
	unsigned domain, bus, device;
	struct vg_gpu_pci_link link;
	struct vg_gpu_pci pci;

	begin();
	OK(vg_gpu_pci(gpu, &pci));
	CHECK_STR(pci.bus_id, vg_gpu_pci_bus_id(gpu));
	CHECK_INT(sscanf(pci.bus_id, "%x:%x:%x", &domain, &bus, &device), 3);
	CHECK(domain == pci.domain && bus == pci.bus && device == pci.device);
	CHECK(pci.base_class == 3 || pci.base_class == -1);
	CHECK_INT(pci.vendor_id, 0x10de);
	OK(vg_gpu_pci_link(gpu, &link));
	CHECK(link.generation >= -1 && link.generation != 0 && link.width >= -1 && link.width != 0);
	CHECK(link.max_generation == -1 || link.generation <= link.max_generation);
	CHECK(link.max_width == -1 || link.width <= link.max_width);
	check_answer(vg_gpu_pci_throughput(gpu, &received, NULL));
	check_answer(vg_gpu_pci_throughput(gpu, NULL, &sent));
	OK(vg_gpu_pci_throughput(gpu, NULL, NULL));
	check_answer(vg_gpu_pci_replays(gpu, &replays));
}

TEST(nvlink)
{
	struct vg_gpu_nvlink link;
	unsigned count = 0;

	begin();
	if (check_answer(vg_gpu_nvlink_count(gpu, &count)))
		CHECK(count <= VG_GPU_NVLINKS);
	for (unsigned i = 0; i < VG_GPU_NVLINKS && check_answer(vg_gpu_nvlink(gpu, i, &link)); i++) {
		CHECK(link.active == 0 || link.active == 1);
		CHECK(link.version_major == -1 || link.version_major > 0);
	}
	REFUSED(vg_gpu_nvlink(gpu, VG_GPU_NVLINKS, &link), VG_INVALID, "there is no link 18");
	REFUSED(vg_gpu_nvlink(gpu, -1u, &link), VG_INVALID, "no link");
}

TEST(locations)
{
	unsigned cpus[4096], nodes[64];
	struct vg_gpu *gpus[64];
	size_t count;

	begin();
	OK(vg_gpu_cpu_affinity(gpu, VG_GPU_AFFINITY_SOCKET, cpus, 4096, &count));
	CHECK(count > 0);
	for (size_t i = 1; i < count; i++)
		CHECK(cpus[i] > cpus[i - 1]);
	OK(vg_gpu_cpu_affinity(gpu, VG_GPU_AFFINITY_NODE, NULL, 0, &count));
	if (count > 1)
		REFUSED(vg_gpu_cpu_affinity(gpu, VG_GPU_AFFINITY_NODE, cpus, 1, &count), VG_LIMIT, "processors");
	if (check_answer(vg_gpu_memory_affinity(gpu, VG_GPU_AFFINITY_NODE, nodes, 64, &count)))
		CHECK(count <= 64);
	REFUSED(vg_gpu_cpu_affinity(gpu, (enum vg_gpu_affinity_scope)2, cpus, 4096, &count), VG_INVALID, "no scope");
	REFUSED(vg_gpu_memory_affinity(gpu, (enum vg_gpu_affinity_scope) - 1, nodes, 64, &count), VG_INVALID,
		"no scope");
	if (check_answer(vg_gpu_near_cpu(0, gpus, 64, &count)))
		for (size_t i = 0; i < count; i++)
			CHECK(vg_gpu_uuid(gpus[i])[0] == 'G');
	REFUSED(vg_gpu_near_cpu(1u << 30, gpus, 64, &count), VG_INVALID, "there is no processor");
}

// Changes the affinity of the calling thread only, and restores it.
TEST(thread_affinity)
{
	cpu_set_t before, now;

	begin();
	CHECK_INT(sched_getaffinity(0, sizeof before, &before), 0);
	if (check_answer(vg_gpu_set_thread_affinity(gpu))) {
		CHECK_INT(sched_getaffinity(0, sizeof now, &now), 0);
		CHECK(CPU_COUNT(&now) > 0);
		check_answer(vg_gpu_clear_thread_affinity(gpu));
	}
	CHECK_INT(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(other_gpus)
{
	enum vg_gpu_topology topology;
	enum vg_gpu_p2p_status status;
	struct vg_gpu *gpus[64];
	size_t all, count;

	begin();
	OK(vg_gpu_all(gpus, 64, &all));
	for (size_t i = 0; i < all; i++) {
		if (check_answer(vg_gpu_common_ancestor(gpu, gpus[i], &topology)))
			CHECK(strcmp(vg_gpu_topology_name(topology), "unknown") != 0);
		for (int what = VG_GPU_P2P_READ; what <= VG_GPU_P2P_PCI && gpus[i] != gpu; what++)
			if (check_answer(vg_gpu_p2p_status(gpu, gpus[i], (enum vg_gpu_p2p)what, &status)))
				CHECK(vg_gpu_p2p_status_name(status)[0]);
	}
	for (int level = 0; level <= VG_GPU_TOPOLOGY_SYSTEM; level += 10)
		if (check_answer(vg_gpu_nearest(gpu, (enum vg_gpu_topology)level, gpus, 64, &count)))
			CHECK(count < all || all == 1);
	REFUSED(vg_gpu_nearest(gpu, (enum vg_gpu_topology)7, gpus, 64, &count), VG_INVALID, "no topology");
	REFUSED(vg_gpu_nearest(gpu, (enum vg_gpu_topology)60, gpus, 64, &count), VG_INVALID, "no topology");
	REFUSED(vg_gpu_p2p_status(gpu, gpu, (enum vg_gpu_p2p)99, &status), VG_INVALID, "99");
	REFUSED(vg_gpu_p2p_status(gpu, NULL, VG_GPU_P2P_READ, &status), VG_INVALID, "other is NULL");
	REFUSED(vg_gpu_common_ancestor(gpu, NULL, &topology), VG_INVALID, "other is NULL");
	CHECK_STR(vg_gpu_topology_name(VG_GPU_TOPOLOGY_HOSTBRIDGE), "hostbridge");
	CHECK_STR(vg_gpu_topology_name((enum vg_gpu_topology)35), "unknown");
	CHECK_STR(vg_gpu_p2p_status_name(VG_GPU_P2P_OK), "ok");
	CHECK_STR(vg_gpu_p2p_status_name((enum vg_gpu_p2p_status)77), "unknown");
}

TEST(clocks)
{
	struct vg_gpu_clock_offsets offsets;
	unsigned mhz, most, least;
	uint64_t reasons;
	int flag;

	begin();
	for (int clock = VG_GPU_CLOCK_GRAPHICS; clock <= VG_GPU_CLOCK_VIDEO; clock++) {
		OK(vg_gpu_clock(gpu, (enum vg_gpu_clock)clock, VG_GPU_CLOCK_CURRENT, &mhz));
		OK(vg_gpu_clock_max(gpu, (enum vg_gpu_clock)clock, &most));
		CHECK(mhz > 0 && mhz <= most);
		check_answer(vg_gpu_clock(gpu, (enum vg_gpu_clock)clock, VG_GPU_CLOCK_CUSTOMER_BOOST_MAX, &mhz));
		check_answer(vg_gpu_clock_customer_boost_max(gpu, (enum vg_gpu_clock)clock, &mhz));
		if (check_answer(vg_gpu_clock_limits(gpu, (enum vg_gpu_clock)clock, 0, &least, &most)))
			CHECK(least <= most);
		check_answer(vg_gpu_clock_limits(gpu, (enum vg_gpu_clock)clock, 0, NULL, NULL));
	}
	if (check_answer(vg_gpu_clock_offsets(gpu, VG_GPU_CLOCK_GRAPHICS, 0, &offsets)))
		CHECK(offsets.min_offset <= offsets.max_offset);
	REFUSED(vg_gpu_clock(gpu, (enum vg_gpu_clock)4, VG_GPU_CLOCK_CURRENT, &mhz), VG_INVALID, "4 is no clock");
	REFUSED(vg_gpu_clock(gpu, VG_GPU_CLOCK_SM, (enum vg_gpu_clock_id)1, &mhz), VG_INVALID, "no clock id");
	REFUSED(vg_gpu_clock_max(gpu, (enum vg_gpu_clock) - 1, &mhz), VG_INVALID, "no clock");
	REFUSED(vg_gpu_clock_limits(gpu, VG_GPU_CLOCK_SM, 16, &least, &most), VG_INVALID, "16 is no performance state");
	REFUSED(vg_gpu_clock_offsets(gpu, VG_GPU_CLOCK_SM, 16, &offsets), VG_INVALID, "16 is no performance state");
	if (check_answer(vg_gpu_auto_boost(gpu, &flag, NULL)))
		CHECK(flag == 0 || flag == 1);
	OK(vg_gpu_supported_clock_reasons(gpu, &reasons));
	CHECK(reasons != 0);
	OK(vg_gpu_clock_reasons(gpu, &reasons));
	CHECK_STR(vg_gpu_clock_reason_name(0), "none");
	CHECK_STR(vg_gpu_clock_reason_name(VG_GPU_CLOCK_REASON_SW_POWER_CAP), "sw_power_cap");
	CHECK_STR(vg_gpu_clock_reason_name(VG_GPU_CLOCK_REASON_DISPLAY_CLOCK_SETTING), "display_clock_setting");
	CHECK_STR(vg_gpu_clock_reason_name(3), "unknown");
}

TEST(performance_states)
{
	struct vg_gpu_dynamic_states dynamic;
	unsigned states[16];
	size_t count;
	int state;

	begin();
	OK(vg_gpu_performance_state(gpu, &state));
	CHECK(state >= -1 && state <= 15);
	if (check_answer(vg_gpu_supported_performance_states(gpu, states, 16, &count)))
		for (size_t i = 0; i < count; i++)
			CHECK(states[i] <= 15);
	if (check_answer(vg_gpu_dynamic_states(gpu, &dynamic)))
		for (int i = 0; i < VG_GPU_DOMAINS; i++)
			CHECK(!dynamic.domain[i].is_present || dynamic.domain[i].percentage <= 100);
}

TEST(temperatures_and_fans)
{
	struct vg_gpu_thermal_sensor sensors[3];
	struct vg_gpu_cooler cooler;
	struct vg_gpu_fan fan;
	unsigned fans = 0;
	int celsius;
	size_t count;

	begin();
	OK(vg_gpu_temperature(gpu, &celsius));
	CHECK(celsius > 0 && celsius < 120);
	for (int i = VG_GPU_THRESHOLD_SHUTDOWN; i <= VG_GPU_THRESHOLD_GPS_CURR; i++)
		(void)vg_gpu_temperature_threshold(gpu, (enum vg_gpu_threshold)i, &celsius);
	REFUSED(vg_gpu_temperature_threshold(gpu, (enum vg_gpu_threshold)8, &celsius), VG_INVALID, "no threshold");
	check_answer(vg_gpu_temperature_margin(gpu, &celsius));
	if (check_answer(vg_gpu_thermal_sensors(gpu, VG_GPU_THERMAL_ALL, sensors, 3, &count)))
		CHECK(count <= 3);
	REFUSED(vg_gpu_thermal_sensors(gpu, (enum vg_gpu_thermal_target)16, sensors, 3, &count), VG_INVALID,
		"no target");
	if (check_answer(vg_gpu_cooler(gpu, &cooler)))
		CHECK(cooler.targets != 0);
	if (check_answer(vg_gpu_fan_count(gpu, &fans)))
		for (unsigned i = 0; i < fans; i++)
			OK(vg_gpu_fan(gpu, i, &fan));
	CHECK(vg_gpu_fan(gpu, 1000, &fan) != VG_OK);
}

TEST(board)
{
	struct vg_gpu_inforom inforom;
	struct vg_gpu_repair repair;

	begin();
	OK(vg_gpu_inforom(gpu, &inforom));
	CHECK(inforom.flush_known || inforom.flush_time == 0);
	CHECK(strlen(inforom.image_version) < sizeof inforom.image_version);
	check_answer(vg_gpu_validate_inforom(gpu));
	if (check_answer(vg_gpu_repair(gpu, &repair)))
		CHECK((repair.channel_pending | repair.tpc_pending) <= 1);
}

TEST(fields)
{
	struct vg_gpu_field fields[3] = {{.id = 186}, {.id = 99999}, {.id = 91}}; // power, invalid, links

	begin();
	OK(vg_gpu_fields(gpu, fields, 3));
	CHECK(fields[1].status != VG_OK && fields[1].code != 0);
	for (int i = 0; i < 3; i += 2)
		CHECK(fields[i].status == VG_OK ? fields[i].code == 0 && fields[i].time > 0 : fields[i].code != 0);
	CHECK_INT(vg_gpu_check_fields(fields, 3), fields[0].status ? fields[0].status : fields[1].status);
	CHECK_CONTAINS(vg_last_error()->text, "field");
	OK(vg_gpu_check_fields(NULL, 0));
	REFUSED(vg_gpu_check_fields(NULL, 1), VG_INVALID, "NULL");
	REFUSED(vg_gpu_fields(gpu, fields, 0), VG_INVALID, "0 fields");
	REFUSED(vg_gpu_fields(gpu, fields, 4097), VG_INVALID, "4097 fields");
	REFUSED(vg_gpu_fields(gpu, NULL, 1), VG_INVALID, "no array");
	REFUSED(vg_gpu_clear_fields(gpu, NULL, 1), VG_INVALID, "no array");
	REFUSED(vg_gpu_fields(NULL, fields, 1), VG_INVALID, "gpu is NULL");
}

// Checks that a query refuses NULL for the GPU and for its result.
TEST(null)
{
	unsigned number;

	begin();
#define PAIR(function, type)                                                  \
	do {                                                                  \
		type answer_;                                                 \
		REFUSED(function(NULL, &answer_), VG_INVALID, "gpu is NULL"); \
		REFUSED(function(gpu, NULL), VG_INVALID, "ret_");             \
	} while (0)
	PAIR(vg_gpu_index, unsigned);
	PAIR(vg_gpu_minor_number, unsigned);
	PAIR(vg_gpu_module_id, unsigned);
	PAIR(vg_gpu_numa_node, unsigned);
	PAIR(vg_gpu_brand, const char *);
	PAIR(vg_gpu_architecture, enum vg_gpu_architecture);
	PAIR(vg_gpu_addressing_mode, enum vg_gpu_addressing);
	PAIR(vg_gpu_c2c_enabled, int);
	PAIR(vg_gpu_display_connected, int);
	PAIR(vg_gpu_display_active, int);
	PAIR(vg_gpu_persistence_mode, int);
	PAIR(vg_gpu_compute_mode, enum vg_gpu_compute_mode);
	PAIR(vg_gpu_mig, struct vg_gpu_mig);
	PAIR(vg_gpu_mig_parent, struct vg_gpu *);
	PAIR(vg_gpu_attributes, struct vg_gpu_attributes);
	PAIR(vg_gpu_pci, struct vg_gpu_pci);
	PAIR(vg_gpu_pci_link, struct vg_gpu_pci_link);
	PAIR(vg_gpu_pci_replays, unsigned);
	PAIR(vg_gpu_nvlink_count, unsigned);
	PAIR(vg_gpu_clock_reasons, uint64_t);
	PAIR(vg_gpu_supported_clock_reasons, uint64_t);
	PAIR(vg_gpu_performance_state, int);
	PAIR(vg_gpu_dynamic_states, struct vg_gpu_dynamic_states);
	PAIR(vg_gpu_temperature, int);
	PAIR(vg_gpu_temperature_margin, int);
	PAIR(vg_gpu_cooler, struct vg_gpu_cooler);
	PAIR(vg_gpu_fan_count, unsigned);
	PAIR(vg_gpu_inforom, struct vg_gpu_inforom);
	PAIR(vg_gpu_repair, struct vg_gpu_repair);
	PAIR(vg_gpu_supported_events, uint64_t);
#undef PAIR
	REFUSED(vg_gpu_set_persistence_mode(NULL, 1), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_set_mig_mode(NULL, 1), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_set_fan_speed(NULL, 0, 50), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_set_default_fan_speed(NULL, 0), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_validate_inforom(NULL), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_clock(NULL, VG_GPU_CLOCK_SM, VG_GPU_CLOCK_CURRENT, &number), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_pci_throughput(NULL, &number, NULL), VG_INVALID, "gpu is NULL");
}

TEST(events)
{
	struct vg_system_events *machine = NULL;
	struct vg_system_event seen[4];
	struct vg_gpu_events *events = NULL;
	struct vg_gpu_event event;
	uint64_t types;
	size_t count;

	begin();
	OK(vg_gpu_supported_events(gpu, &types));
	CHECK(types & VG_GPU_EVENT_XID_CRITICAL_ERROR);
	OK(vg_gpu_events_create(gpu, VG_GPU_EVENT_XID_CRITICAL_ERROR, &events));
	check_answer(vg_gpu_events_add(events, gpu, VG_GPU_EVENT_XID_CRITICAL_ERROR));
	CHECK_INT(vg_gpu_events_wait(events, 20, &event), VG_NOT_READY);
	CHECK_INT(vg_last_error()->code, VG_NVML_ERROR_TIMEOUT);
	REFUSED(vg_gpu_events_wait(events, 1, NULL), VG_INVALID, "NULL");
	REFUSED(vg_gpu_events_wait(NULL, 1, &event), VG_INVALID, "NULL");
	REFUSED(vg_gpu_events_add(NULL, gpu, 8), VG_INVALID, "NULL");
	REFUSED(vg_gpu_events_add(events, NULL, 8), VG_INVALID, "gpu is NULL");
	vg_gpu_events_destroy(events);
	vg_gpu_events_destroy(NULL);
	events = NULL;
	CHECK(vg_gpu_events_create(gpu, 1ull << 62, &events) != VG_OK && !events);
	CHECK_CONTAINS(vg_last_error()->text, "0x4000000000000000");
	REFUSED(vg_gpu_events_create(NULL, 8, &events), VG_INVALID, "gpu is NULL");
	REFUSED(vg_gpu_events_create(gpu, 8, NULL), VG_INVALID, "NULL");
	CHECK_STR(vg_gpu_event_type_name(0), "none");
	CHECK_STR(vg_gpu_event_type_name(VG_GPU_EVENT_XID_CRITICAL_ERROR), "xid_critical_error");
	CHECK_STR(vg_gpu_event_type_name(VG_GPU_EVENT_GPU_RECOVERY_ACTION), "gpu_recovery_action");
	CHECK_STR(vg_gpu_event_type_name(VG_GPU_EVENT_MIG_CONFIG_CHANGE), "mig_config_change");
	CHECK_STR(vg_gpu_event_type_name(0x20), "unknown");
	if (check_answer(vg_system_events_create(VG_SYSTEM_EVENT_BIND | VG_SYSTEM_EVENT_UNBIND, &machine))) {
		enum vg_status status = vg_system_events_wait(machine, 20, seen, 4, &count);
		CHECK(status == VG_NOT_READY || !check_answer(status));
		REFUSED(vg_system_events_wait(machine, 1, seen, 0, &count), VG_INVALID, "0 events");
		REFUSED(vg_system_events_wait(machine, 1, NULL, 1, &count), VG_INVALID, "NULL");
	}
	vg_system_events_destroy(machine);
	vg_system_events_destroy(NULL);
	REFUSED(vg_system_events_create(0, &machine), VG_INVALID, "types 0x0");
	REFUSED(vg_system_events_create(4, &machine), VG_INVALID, "types 0x4");
	REFUSED(vg_system_events_wait(NULL, 1, seen, 4, &count), VG_INVALID, "NULL");
}

// Tests setters with the simulated driver, since they would change the settings of a real GPU.
TEST(setters)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("would change a real GPU's settings");
	begin();
	REFUSED(vg_gpu_set_persistence_mode(gpu, 0), VG_DENIED, "NO_PERMISSION");
	CHECK_INT(vg_last_error()->code, VG_NVML_ERROR_NO_PERMISSION);
	REFUSED(vg_gpu_set_mig_mode(gpu, 1), VG_DENIED, "NO_PERMISSION");
	REFUSED(vg_gpu_set_fan_speed(gpu, 0, 101), VG_INVALID, "101 %");
	REFUSED(vg_gpu_set_fan_speed(gpu, 0, 50), VG_UNSUPPORTED, "has 0 fans");
	REFUSED(vg_gpu_set_default_fan_speed(gpu, 0), VG_UNSUPPORTED, "has 0 fans");
	struct vg_gpu_field field = {.id = 91};
	OK(vg_gpu_clear_fields(gpu, &field, 1));
	CHECK_INT(field.status, VG_UNSUPPORTED);
}
