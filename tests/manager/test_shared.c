// Tests shared virtual GPUs: the daemon knows them, programs run inside them, and one ledger has all charges.
#include "shared_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static char tenant_path[PATH_MAX];

struct child {
	pid_t pid;
	int in, out;
	char said[300];
};

// Runs a program with pipes as standard streams, and reads its first line of output.
static struct child start(const char *const *arguments)
{
	struct child child = {0};
	int in[2], out[2];
	size_t length = 0;

	CHECK(pipe(in) == 0 && pipe(out) == 0);
	child.pid = fork();
	if (child.pid == 0) {
		// Without this variable, `virgate` finds the parts of its own build.
		unsetenv("VIRGATE_LIBDIR");
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execv(arguments[0], (char *const *)arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	child.in = in[1];
	child.out = out[0];
	while (length < sizeof child.said - 1 && read(child.out, child.said + length, 1) == 1 &&
	       child.said[length] != '\n')
		length++;
	child.said[length] = '\0';
	return child;
}

static const char *tenant(void)
{
	CHECK(realpath("/proc/self/exe", tenant_path));
	strcpy(strrchr(tenant_path, '/') + 1, "manager-tenant");
	return tenant_path;
}

static struct child run_inside(const char *vgpu, const char *mib)
{
	const char *const arguments[] = {shared_cli, "run", "--vgpu", vgpu, "--", tenant(), "take", mib, NULL};

	return start(arguments);
}

static void end(struct child *child)
{
	close(child->in);
	close(child->out);
	CHECK(waitpid(child->pid, NULL, 0) == child->pid);
}

// Returns a limit that has room for the contexts of programs inside the vGPU.
static uint64_t get_roomy_limit(void)
{
	return getenv("VIRGATE_SIM") ? 512 * MIB : 4096 * MIB;
}

TEST(the_daemon_lists_a_shared_vgpu_until_its_close)
{
	struct vg_manager *manager = shared_manager();
	struct vg_virtual_gpu *vgpu = new_shared(manager, "known", get_roomy_limit());
	struct listed listed = look("known");

	CHECK(listed.found);
	CHECK_INT(listed.memory, get_roomy_limit());
	CHECK_INT(listed.share, 25);
	CHECK_INT(listed.charged, 0);
	CHECK(info_of(vgpu).shared);
	vg_address block = allocate(vgpu, 3 * MIB);
	CHECK_INT(look("known").charged, 4 * MIB);
	CHECK_INT(info_of(vgpu).memory_held, 4 * MIB);
	CHECK_INT(look("known").tenants, 1);
	OK(vg_virtual_gpu_set_memory_limit(vgpu, get_roomy_limit() + 64 * MIB));
	CHECK_INT(look("known").memory, get_roomy_limit() + 64 * MIB);
	CHECK_INT(info_of(vgpu).memory_limit, get_roomy_limit() + 64 * MIB);
	OK(vg_virtual_gpu_free(vgpu, block));
	OK(vg_virtual_gpu_close(vgpu));
	CHECK(!look("known").found);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

static atomic_bool looking;

static void *keep_looking(void *user)
{
	while (atomic_load(&looking))
		(void)manager_info(user);
	return NULL;
}

TEST(manager_info_works_while_shared_vgpus_close)
{
	struct vg_manager *manager = shared_manager();
	pthread_t thread;

	atomic_store(&looking, true);
	CHECK_INT(pthread_create(&thread, NULL, keep_looking, manager), 0);
	for (int i = 0; i < 30; i++) {
		struct vg_virtual_gpu *vgpu = new_shared(manager, "goes", get_roomy_limit());
		OK(vg_virtual_gpu_close(vgpu));
		vg_virtual_gpu_destroy(vgpu);
	}
	atomic_store(&looking, false);
	pthread_join(thread, NULL);
	CHECK_INT(manager_info(manager).memory_held, 0);
	vg_manager_destroy(manager);
}

TEST(one_ledger_has_all_charges)
{
	struct vg_manager *manager = shared_manager();
	struct vg_virtual_gpu *vgpu = new_shared(manager, "one", get_roomy_limit());
	vg_address block = allocate(vgpu, 16 * MIB), more;

	struct child child = run_inside("one", "32");
	CHECK_STR(child.said, "ready");
	struct listed listed = look("one");
	CHECK(listed.charged >= (16 + 32) * MIB);
	CHECK_INT(info_of(vgpu).memory_held, listed.charged);
	uint64_t left = get_roomy_limit() - listed.charged;
	REFUSED(vg_virtual_gpu_allocate(vgpu, left + 2 * MIB, 0, &more), VG_INSUFFICIENT,
		"virtual GPU 1 (one): asked for");
	CHECK_INT(vg_last_error()->have, left);
	CHECK_INT(info_of(vgpu).refusals, 1);
	OK(vg_virtual_gpu_allocate(vgpu, left / (2 * MIB) * (2 * MIB), 0, &more));
	// The vGPU has no memory left, not even for the context of this program.
	struct child second = run_inside("one", "8");
	CHECK(strcmp(second.said, "ready") != 0);
	end(&second);
	end(&child);
	OK(vg_virtual_gpu_free(vgpu, more));
	OK(vg_virtual_gpu_free(vgpu, block));
	// Frees cached pages.
	OK(vg_memory_space_defragment(vg_virtual_gpu_memory(vgpu), NULL));
	for (int i = 0; i < 1000 && look("one").charged; i++)
		poll(NULL, 0, 5);
	CHECK_INT(look("one").charged, 0);
	vg_virtual_gpu_destroy(vgpu);
	await_gone("one");
	vg_manager_destroy(manager);
}

TEST(an_existing_name_is_refused)
{
	const struct vg_vgpu_options taken = {.size = sizeof taken, .name = "taken", .memory = get_roomy_limit()};
	struct vg_virtual_gpu_options options = {
		.size = sizeof options, .memory_limit = get_roomy_limit(), .shared = 1};
	struct vg_manager *manager = shared_manager(), *plain = open_manager(NULL);
	struct vg_virtual_gpu *vgpu;

	OK(vg_vgpu_create(shared_node(), &taken));
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_INVALID, "needs a name");
	options.name = "taken";
	REFUSED(vg_virtual_gpu_create(manager, &options, &vgpu), VG_EXISTS,
		getenv("VIRGATE_SIM") ? "`virgate rm --sim" : "`virgate rm taken`");
	CHECK_INT(manager_info(manager).memory_promised, 0);
	REFUSED(vg_virtual_gpu_create(plain, &options, &vgpu), VG_STATE, "node");
	OK(vg_vgpu_remove(shared_node(), "taken"));
	OK(vg_virtual_gpu_create(manager, &options, &vgpu));
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(plain);
	vg_manager_destroy(manager);
}

static int log_says(const char *word)
{
	static char text[65536];
	char path[128];

	snprintf(path, sizeof path, "%s/run/virgated.log", shared_directory);
	FILE *file = fopen(path, "r");
	CHECK(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return strstr(text, word) != NULL;
}

// A program that creates a shared vGPU can also have memory that does not belong to it. Such memory is not in the
// ledger. It must not be charged, and the daemon must not log it as undeclared.
TEST(other_memory_of_the_program_is_not_charged)
{
	struct vg_manager *manager = shared_manager();
	struct vg_virtual_gpu *vgpu = new_shared(manager, "beside", get_roomy_limit()),
			      *own = new_vgpu(manager, 0, 128 * MIB);

	allocate(own, 100 * MIB);
	allocate(vgpu, 2 * MIB);
	for (int i = 0; i < 40; i++) { // for 4 s, which is longer than the daemon tolerates uncharged memory
		poll(NULL, 0, 100);
		CHECK_INT(look("beside").charged, 2 * MIB);
		// The daemon does not list NVML's figure for this vGPU, since it includes the program's other memory.
		CHECK(!look("beside").physical_known);
	}
	CHECK(!log_says(" holds "));
	CHECK_INT(info_of(own).memory_held, 100 * MIB);
	vg_virtual_gpu_destroy(own);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
}

TEST(programs_inside_survive_the_close)
{
	struct vg_manager *manager = shared_manager();
	struct vg_virtual_gpu *vgpu = new_shared(manager, "outlive", get_roomy_limit());
	struct child child = run_inside("outlive", "16");

	CHECK_STR(child.said, "ready");
	allocate(vgpu, 64 * MIB);
	uint64_t charged = look("outlive").charged;
	OK(vg_virtual_gpu_close(vgpu));
	CHECK_INT(look("outlive").charged, charged - 64 * MIB);
	end(&child);
	vg_virtual_gpu_destroy(vgpu);
	vg_manager_destroy(manager);
	for (int i = 0; i < 1000 && look("outlive").charged; i++)
		poll(NULL, 0, 5);
	OK(vg_vgpu_remove(shared_node(), "outlive"));
}

TEST(a_killed_program_leaves_nothing)
{
	char limit[24];

	shared_node();
	snprintf(limit, sizeof limit, "%llu", (unsigned long long)(get_roomy_limit() / MIB));
	const char *const arguments[] = {tenant(), "manage", "killed", limit, "64", NULL};
	struct child child = start(arguments);
	CHECK_STR(child.said, "ready");
	CHECK_INT(look("killed").charged, 64 * MIB);
	struct child inside = run_inside("killed", "16");
	CHECK_STR(inside.said, "ready");
	uint64_t charged = look("killed").charged;
	CHECK(kill(child.pid, SIGKILL) == 0);
	end(&child);
	for (int i = 0; i < 2000 && look("killed").charged != charged - 64 * MIB; i++)
		poll(NULL, 0, 5);
	CHECK_INT(look("killed").charged, charged - 64 * MIB);
	end(&inside);
	await_gone("killed");
}
