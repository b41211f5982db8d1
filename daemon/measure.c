// What tenants hold on the device beyond what they were charged for: kernels loaded on first
// use, local memory, libraries' heaps. NVML knows it by process; asking takes 20 microseconds
// here and 15 milliseconds of initialisation in a tenant, so the daemon asks.
#include "base/clock.h"
#include "base/size.h"
#include "daemon/node.h"

// What a tenant may hold beyond its charges without a word: a pool grows in steps of 32 MiB.
static const uint64_t SLACK = 32ull << 20, DRIFT_NS = 3000000000;

static bool has_living(const struct node *node, size_t device)
{
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (const struct tenant *tenant = vgpu->tenants; tenant && vgpu->device == device; tenant = tenant->next)
			if (!tenant->dead)
				return true;
	return false;
}

// Managed memory does not count in NVML's figure.
static uint64_t declared(const struct vg_ledger_tenant *tenant)
{
	uint64_t apart = tenant->by_kind[VG_LEDGER_MANAGED] + tenant->by_kind[VG_LEDGER_UNDECLARED];

	return tenant->used > apart ? tenant->used - apart : 0;
}

// A tenant that holds nothing but its first context shows what a context takes; of several,
// the one with the fewest modules. The estimate serves all later tenants of this GPU.
static void learn_context(struct vgpu *vgpu, const struct vg_ledger_tenant *tenant, uint64_t physical)
{
	bool measured = vg_ledger_flags(vgpu->ledger) & VG_LEDGER_OVERHEAD_MEASURED;

	if (tenant->pristine && declared(tenant) == tenant->by_kind[VG_LEDGER_CONTEXT] && physical &&
	    (!measured || physical < vg_ledger_context_overhead(vgpu->ledger)))
		vg_ledger_set_context_overhead(vgpu->ledger, physical);
}

// The quota's backstop: what is on the device and was charged to nobody is at least told.
static void report_drift(const struct vgpu *vgpu, struct tenant *tenant, const struct vg_ledger_tenant *now, uint64_t physical)
{
	uint64_t charged = now->used - now->by_kind[VG_LEDGER_MANAGED];
	char text[2][VG_SIZE_TEXT];

	if (physical <= charged + SLACK) {
		tenant->drift_since_ns = 0;
		return;
	}
	if (!tenant->drift_since_ns)
		tenant->drift_since_ns = vg_clock_monotonic_ns();
	if (tenant->drift_told || vg_clock_monotonic_ns() - tenant->drift_since_ns < DRIFT_NS)
		return;
	tenant->drift_told = true;
	say("process %d of vGPU %s holds %s on the device, but %s is charged", (int)tenant->pid, vgpu->name,
	    vg_size_format(physical, text[0]), vg_size_format(charged, text[1]));
}

// A tenant reserves before it allocates and frees before it refunds, so at worst the figure is
// too small for a moment; one that changed while we looked is left for the next time.
static void measure_one(struct vgpu *vgpu, struct tenant *tenant, uint64_t physical)
{
	struct vg_ledger_tenant now;
	unsigned int cursor = tenant->seen.slot;

	if (!vg_ledger_next_tenant(vgpu->ledger, &cursor, &now) || now.slot != tenant->seen.slot ||
	    now.generation != tenant->seen.generation || now.changes != tenant->seen.changes)
		return;
	uint64_t expected = declared(&now);
	learn_context(vgpu, &now, physical);
	vg_ledger_set_undeclared(vgpu->ledger, &now, physical > expected ? physical - expected : 0);
	report_drift(vgpu, tenant, &now, physical);
}

void measure_device(struct node *node, size_t device)
{
	static struct vg_system_process processes[VG_SYSTEM_PROCESSES];
	size_t count = 0;

	if (!has_living(node, device) || vg_system_processes(node->system, device, processes, &count) < 0)
		return;
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		for (struct tenant *tenant = vgpu->tenants; tenant && vgpu->device == device && !vgpu->damaged;
		     tenant = tenant->next)
			for (size_t i = 0; i < count; i++)
				if (!tenant->dead && processes[i].pid == (uint32_t)tenant->pid &&
				    processes[i].memory_known)
					measure_one(vgpu, tenant, processes[i].memory);
}

// After a scan, which brought `seen` up to date.
void measure_tenants(struct node *node)
{
	for (size_t device = 0; device < vg_system_device_count(node->system); device++)
		measure_device(node, device);
}
