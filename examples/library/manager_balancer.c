// Work without a certain virtual GPU: the balancer chooses one, and a callback sets the arguments' addresses before it
// runs the work. A log has the work that the balancer moved, and why.
#include "check.h"

enum { TENANTS = 2, PIECES = 40, COUNT = 2000 };

struct tenant {
	struct vg_virtual_gpu *vgpu;
	vg_address results; // PIECES times COUNT numbers: a row for each piece of work
	int pieces;
};

struct piece {
	struct tenant *tenants, *chosen;
	struct vg_balanced *balanced;
	int number;
};

// Arguments of the built-in kernel "fill": address, value, count. Only the address depends on the virtual GPU.
static enum vg_status bind_piece(void *user, struct vg_virtual_gpu *vgpu, void *const *values, size_t count)
{
	struct piece *piece = user;
	struct vg_virtual_gpu_info info;
	enum vg_status status = vg_virtual_gpu_info(vgpu, &info);

	(void)count;
	if (status)
		return status;
	piece->chosen = &piece->tenants[info.id - 1];
	*(vg_address *)values[0] = piece->chosen->results + (size_t)piece->number * COUNT * sizeof(float);
	return VG_OK;
}

static void submit_piece(struct vg_balancer *balancer, struct piece *piece)
{
	float value = (float)piece->number;
	uint64_t count = COUNT;
	const struct vg_argument arguments[] = {
		{.size = sizeof(vg_address)}, VG_ARGUMENT(value), VG_ARGUMENT(count)}; // bind_piece() sets the address
	const struct vg_balanced_work work = {.size = sizeof work,
					      .kernel = "fill",
					      .config = {.grid = {4}, .block = {128}},
					      .arguments = arguments,
					      .argument_count = 3,
					      .bind = bind_piece,
					      .user = piece};

	check(vg_balancer_execute(balancer, &work, &piece->balanced));
}

static int count_wrong(const struct piece *piece)
{
	static float row[COUNT];
	int bad = 0;

	check(vg_virtual_gpu_read(piece->chosen->vgpu, row, piece->chosen->results + (size_t)piece->number * sizeof row,
				  sizeof row));
	for (int i = 0; i < COUNT; i++)
		bad += row[i] != (float)piece->number;
	return bad;
}

static void show_log(struct vg_balancer *balancer)
{
	struct vg_balancing_entry entries[8];
	size_t count;

	check(vg_balancer_log(balancer, entries, 8, &count));
	for (size_t i = 0; i < count; i++)
		printf("%s: %s\n", vg_balancing_action_text(entries[i].action), entries[i].why);
}

int main(void)
{
	const double shares[TENANTS] = {0.7, 0.3};
	struct tenant tenants[TENANTS] = {0};
	static struct piece pieces[PIECES];
	struct vg_balancer *balancer;
	struct vg_manager *manager;
	struct vg_device *device;
	int bad = 0;

	check(vg_device_get(0, &device));
	check(vg_manager_create(device, NULL, &manager));
	for (int i = 0; i < TENANTS; i++) {
		const struct vg_virtual_gpu_options options = {
			.size = sizeof options, .id = i + 1, .memory_limit = 64 << 20, .compute_share = shares[i]};
		check(vg_virtual_gpu_create(manager, &options, &tenants[i].vgpu));
		check(vg_virtual_gpu_allocate(tenants[i].vgpu, PIECES * COUNT * sizeof(float), 0, &tenants[i].results));
	}
	// the balancer chooses the virtual GPU with the least load for its compute share
	check(vg_balancer_create(&manager, 1, NULL, &balancer));

	for (int i = 0; i < PIECES; i++) {
		pieces[i] = (struct piece){.tenants = tenants, .number = i};
		submit_piece(balancer, &pieces[i]);
	}
	for (int i = 0; i < PIECES; i++) {
		check(vg_balanced_wait(pieces[i].balanced, 0));
		vg_balanced_destroy(pieces[i].balanced);
		pieces[i].chosen->pieces++;
		bad += count_wrong(&pieces[i]);
	}
	show_log(balancer);
	vg_balancer_destroy(balancer);
	for (int i = 0; i < TENANTS; i++) {
		printf("virtual GPU %d, share %.0f %%: %d pieces\n", i + 1, 100 * shares[i], tenants[i].pieces);
		vg_virtual_gpu_destroy(tenants[i].vgpu);
	}
	vg_manager_destroy(manager);
	printf("manager_balancer: %d of %d numbers are wrong\n", bad, PIECES * COUNT);
	return bad != 0;
}
