// Measures how much device memory tenants use beyond what they charged: for kernels loaded on first use, local memory
// and heaps of libraries. NVML reports the memory of each process. The daemon asks NVML for all tenants: a query takes
// the daemon 20 microseconds, but a tenant would first need 15 milliseconds to initialise NVML.
#include "daemon/measure.h"

#include "base/clock.h"
#include "base/size.h"
#include "daemon/arbiter.h"
#include "daemon/damage.h"
#include "daemon/doubt.h"
#include "daemon/eviction.h"
#include "daemon/overhead.h"
#include "daemon/save.h"
#include "daemon/say.h"
#include "daemon/shared.h"
#include "daemon/tenant.h"
#include "daemon/user.h"

#include <string.h>

// SLACK: how much more memory a tenant may use than it has charged, without a log line (a pool grows in steps of 32
// MiB). DRIFT_NS: for how long a tenant may exceed SLACK without a log line.
static const uint64_t SLACK = 32ull << 20, DRIFT_NS = 3000000000;

static bool has_live_tenants(const struct node *node, size_t device)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu->device == device;
		     tenant = tenant->next)
			if (!tenant->is_dead)
				return true;
	return false;
}

// Returns whether the daemon measures the tenant's memory for this vGPU. A guest, a process that has opened memory of
// this vGPU, is measured for its own vGPU. A host (ledger/ledger.h) has memory of several vGPUs on the device, and NVML
// reports only the sum.
static bool is_measured(const struct tenant *tenant)
{
	return !tenant->is_dead && !tenant->is_replaced && !tenant->seen.guest && !tenant->seen.host &&
	       tenant->vgpu->damage != DAMAGE_CONTENTS;
}

// Estimates the memory of a context from a tenant that has nothing but its first context. Of several such tenants, the
// smallest figure counts. The estimate is used for all later tenants of this owner. A tenant says itself that it has
// nothing else, and must not be able to lower the estimate at will. So two measurements must agree, and a figure of at
// most half the measured estimate is ignored.
static void learn_context(struct node *node, struct vgpu *vgpu, struct tenant *tenant,
			  const struct vg_ledger_tenant *now, uint64_t physical)
{
	bool measured = vg_ledger_flags(vgpu->ledger) & VG_LEDGER_OVERHEAD_MEASURED;
	uint64_t known = vg_ledger_context_overhead(vgpu->ledger);

	if (!now->pristine || now->changes != tenant->seen.changes ||
	    now->declared != now->by_kind[VG_LEDGER_CONTEXT]) {
		tenant->pristine_physical = 0;
		return;
	}
	bool confirmed = physical == tenant->pristine_physical;
	tenant->pristine_physical = physical;
	if (!physical || !confirmed || (measured && (physical >= known || physical <= known / 2)))
		return;
	vg_ledger_set_context_overhead(vgpu->ledger, physical);
	// The estimate is used for this user only. A user's own daemon keeps it in its state file.
	if (overhead_remember(node, vgpu->owner, vg_system_device(node->system, vgpu->device)->name,
			      vg_system_driver_version(node->system), physical) &&
	    !node->system_wide)
		save_state(node);
}

// Logs a process that uses more memory on the device than it was charged for, because the quota cannot prevent that.
// Memory that moved to the host is charged but not on the device.
static void report_drift(const struct vgpu *vgpu, struct tenant *tenant, const struct vg_ledger_tenant *now,
			 uint64_t physical, uint64_t shared, uint64_t in_host)
{
	uint64_t charged = now->used - now->by_kind[VG_LEDGER_MANAGED];
	char text[2][VG_SIZE_TEXT];

	charged = (charged > in_host ? charged - in_host : 0) + shared;
	if (physical <= charged + SLACK) {
		tenant->drift_since_ns = 0;
		return;
	}
	if (!tenant->drift_since_ns)
		tenant->drift_since_ns = vg_clock_monotonic_ns();
	if (tenant->drift_reported || vg_clock_monotonic_ns() - tenant->drift_since_ns < DRIFT_NS)
		return;
	tenant->drift_reported = true;
	say("process %d of vGPU %s holds %s on the device, but %s is charged", (int)tenant->pid, vgpu->name,
	    vg_size_format(physical, text[0]), vg_size_format(charged, text[1]));
}

// Reads the tenant's slot again into *ret_now. Returns false if the tenant has left, or if another process has the slot
// by now, as after a restore.
static bool read_slot_again(const struct vgpu *vgpu, const struct tenant *tenant, struct vg_ledger_tenant *ret_now)
{
	unsigned int cursor = tenant->seen.slot;

	return vg_ledger_next_tenant(vgpu->ledger, &cursor, ret_now) && ret_now->slot == tenant->seen.slot &&
	       ret_now->generation == tenant->seen.generation &&
	       memcmp(&ret_now->owner, &tenant->seen.owner, sizeof ret_now->owner) == 0;
}

static uint64_t count_host_bytes(const struct tenant *tenant)
{
	struct eviction eviction = {0};

	if (tenant->vgpu->evictable)
		eviction_read_slot(tenant->vgpu, tenant->seen.slot, &eviction);
	bool is_out = eviction.state == PAGER_OUT || eviction.state == PAGER_PARKED;
	return is_out ? eviction.host : 0; // while memory moves, an unknown part of these bytes is on the device
}

// Returns how many bytes of the declared memory were in the host during the whole measurement. Memory that returned and
// left again within that time counts as in the host. A tenant can report any value. But a wrong value only makes the
// undeclared part larger, so the charge is never less than the memory on the device.
static uint64_t least_in_host(const struct tenant *tenant)
{
	uint64_t host = count_host_bytes(tenant);

	return vg_size_min(host, tenant->host_before);
}

static uint64_t pick_larger(uint64_t left, uint64_t right)
{
	return left > right ? left : right;
}

// Charges to the tenant the memory that it did not declare. The tenant runs during the measurement. It declares memory
// before it allocates, and refunds it after it was freed. So memory beyond the largest declared amount of that time was
// never declared.
static void measure_tenant(struct node *node, struct vgpu *vgpu, struct tenant *tenant, uint64_t physical)
{
	struct vg_ledger_tenant now;

	if (!read_slot_again(vgpu, tenant, &now))
		return;
	uint64_t most = pick_larger(pick_larger(tenant->declared_before, now.declared), now.peak);
	uint64_t adrift = now.adrift < tenant->seen.adrift ? now.adrift : tenant->seen.adrift;
	uint64_t shared = shared_bytes_shown_under(node, tenant), in_host = least_in_host(tenant);
	uint64_t absent = adrift + in_host < adrift ? UINT64_MAX : adrift + in_host;
	uint64_t expected = (most > absent ? most - absent : 0) + shared;
	uint64_t undeclared = physical > expected ? physical - expected : 0;
	// While the driver removes a process from the device, the process's undeclared memory stays charged, since the
	// process needs it again when it returns.
	if (eviction_is_deep(tenant) && undeclared < now.undeclared)
		undeclared = now.undeclared;
	learn_context(node, vgpu, tenant, &now, physical);
	vg_ledger_set_undeclared(vgpu->ledger, &now, undeclared);
	report_drift(vgpu, tenant, &now, physical, shared, in_host);
}

static void begin_tenant(struct vgpu *vgpu, struct tenant *tenant)
{
	struct vg_ledger_tenant now;

	vg_ledger_clear_peak(vgpu->ledger, &tenant->seen);
	tenant->declared_before = UINT64_MAX;
	if (!read_slot_again(vgpu, tenant, &now))
		return;
	tenant->seen = now;
	tenant->declared_before = now.declared;
	tenant->host_before = count_host_bytes(tenant);
}

// Begins to measure the tenants of the vGPU. Stops when the owner's part of the loop's time is used up: a ledger can
// name a process in each of its slots.
static void begin_vgpu(struct node *node, struct vgpu *vgpu)
{
	bool in_time = user_begin_time(node, vgpu->owner);

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		tenant->is_looked_at = in_time && is_measured(tenant) && user_has_time();
		if (tenant->is_looked_at)
			begin_tenant(vgpu, tenant);
	}
	user_end_time();
}

// Returns how many of the `physical` bytes that the driver lists under the tenant belong to the tenant's own vGPU.
static uint64_t count_own_bytes(const struct node *node, const struct tenant *tenant, uint64_t physical)
{
	uint64_t others = tenant->vgpu->residence.claims_out ? shared_bytes_of_others(node, tenant) : 0;

	return physical > others ? physical - others : 0;
}

static void measure_vgpu(struct node *node, struct vgpu *vgpu, const struct vg_system_process *processes, size_t count)
{
	struct doubt_measurement found = {.is_complete = true};

	user_begin_time(node, vgpu->owner);
	for (struct tenant *tenant = vgpu->tenants; tenant && user_has_time(); tenant = tenant->next) {
		found.is_complete &= tenant->is_looked_at || !is_measured(tenant);
		for (size_t i = 0; i < count && tenant->is_looked_at && is_measured(tenant); i++) {
			if (processes[i].pid != (uint32_t)tenant->pid || !processes[i].memory_known || !user_has_time())
				continue;
			found.physical += count_own_bytes(node, tenant, processes[i].memory);
			measure_tenant(node, vgpu, tenant, processes[i].memory);
		}
	}
	found.is_complete &= user_has_time();
	user_end_time();
	if (vgpu->evictable)
		doubt_update(vgpu, &found);
}

void measure_device(struct node *node, size_t device)
{
	static struct vg_system_process processes[VG_SYSTEM_PROCESSES];
	size_t count = 0;

	if (!has_live_tenants(node, device))
		return;
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->device == device)
			begin_vgpu(node, vgpu);
	if (vg_system_processes(node->system, device, processes, &count) < 0)
		return;
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->device == device)
			measure_vgpu(node, vgpu, processes, count);
}

void measure_all(struct node *node)
{
	for (size_t device = 0; device < vg_system_device_count(node->system); device++)
		measure_device(node, device);
}

void measure_for_listing(struct node *node, struct vgpu *vgpu)
{
	tenant_scan(node, vgpu);
	arbiter_follow(node); // the scan may have found the vGPU's first program
}

void measure_for_list(struct node *node, const struct authority_peer *peer)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (authority_allows(AUTHORITY_TENANTS, authority_classify(peer, vgpu->owner, vgpu->group)))
			tenant_scan(node, vgpu);
		else
			damage_check(node, vgpu);
	arbiter_follow(node); // once for all vGPUs
}
