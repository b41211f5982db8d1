// Checks that shared allocations are charged once, in whatever order processes open and release them.
#include "actor.h"
#include "base/descriptor.h"
#include "ledger/shared.h"
#include "tenant.h"

#define CONTEXT (16 * MIB)
#define LIMIT (256 * MIB)

static struct actor owner, user, other;

static uint64_t charged(void)
{
	return vg_ledger_charged(tenant_ledger);
}

static void begin(void)
{
	tenant_new_ledger(LIMIT, CONTEXT);
	owner = actor_start();
	user = actor_start();
	other = actor_start();
	CHECK_INT(act(&owner, START, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, START, 0), CUDA_SUCCESS);
	CHECK_INT(act(&other, START, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
}

// Reaps ended processes, as the daemon does after the driver has freed their memory.
static void reap(void)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t refunded;

	while (vg_ledger_next_tenant(tenant_ledger, &cursor, &tenant))
		if (vg_process_is_dead((pid_t)tenant.owner.pid, tenant.owner.start_time))
			CHECK_INT(vg_ledger_reap(tenant_ledger, &tenant, NULL, &refunded), 0);
}

static void end_all(void)
{
	actor_end(&owner);
	actor_end(&user);
	actor_end(&other);
	reap();
	CHECK_INT(charged(), 0);
	CHECK_INT(vg_ledger_shared_charge(tenant_ledger), 0);
}

static CUresult opens(struct actor *actor, const struct act *handle)
{
	return act_with(actor, OPEN, handle, 0, -1, NULL).result;
}

// Allocates memory and returns its handle. The memory and the contexts use 160 of the 256 MiB, so the memory would not
// fit two more times.
static struct act handle_of(uint64_t bytes)
{
	CHECK_INT(act(&owner, ALLOC, bytes), CUDA_SUCCESS);
	struct act handle = act_with(&owner, GET_HANDLE, NULL, 0, -1, NULL);
	CHECK_INT(handle.result, CUDA_SUCCESS);
	return handle;
}

TEST(ipc_handles_are_charged_once)
{
	begin();
	struct act handle = handle_of(160 * MIB);
	uint64_t all = 3 * CONTEXT + 160 * MIB;
	CHECK_INT(opens(&user, &handle), CUDA_SUCCESS);
	CHECK_INT(opens(&user, &handle), CUDA_SUCCESS);
	CHECK_INT(opens(&other, &handle), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(act(&other, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}

TEST(freed_memory_stays_charged_until_its_last_handle_is_closed)
{
	begin();
	struct act handle = handle_of(160 * MIB);
	CHECK_INT(opens(&user, &handle), CUDA_SUCCESS);
	CHECK_INT(opens(&other, &handle), CUDA_SUCCESS);
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT + 160 * MIB);
	CHECK_INT(act(&owner, ALLOC, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT + 160 * MIB);
	actor_kill(&other);
	reap();
	CHECK_INT(charged(), 2 * CONTEXT);
	CHECK_INT(act(&owner, ALLOC, 64 * MIB), CUDA_SUCCESS);
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	other = actor_start();
	end_all();
}

TEST(memory_of_an_ended_owner_stays_charged_while_open)
{
	begin();
	struct act handle = handle_of(160 * MIB);
	CHECK_INT(opens(&user, &handle), CUDA_SUCCESS);
	actor_kill(&owner);
	reap();
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	CHECK_INT(vg_ledger_shared_charge(tenant_ledger), 160 * MIB);
	CHECK_INT(opens(&other, &handle), CUDA_SUCCESS); // the handle can still be opened
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(act(&other, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT);
	owner = actor_start();
	end_all();
}

// Two small allocations in one block have different handles of the same memory.
TEST(handles_of_one_block_are_charged_once)
{
	begin();
	struct act first = handle_of(64 << 10), second = handle_of(64 << 10);
	CHECK(memcmp(first.bytes, second.bytes, sizeof first.bytes) != 0);
	uint64_t all = 3 * CONTEXT + 2 * MIB;
	CHECK_INT(charged(), all);
	CHECK_INT(opens(&user, &first), CUDA_SUCCESS);
	CHECK_INT(opens(&other, &second), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	actor_kill(&owner);
	reap();
	CHECK_INT(charged(), all - CONTEXT);
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all - CONTEXT);
	CHECK_INT(act(&other, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT);
	owner = actor_start();
	end_all();
}

TEST(descriptors_are_charged_once)
{
	int fd, again;

	begin();
	CHECK_INT(act_with(&owner, CREATE, NULL, 160 * MIB, -1, &fd).result, CUDA_SUCCESS);
	uint64_t all = 3 * CONTEXT + 160 * MIB;
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&user, MAP, 160 * MIB), CUDA_SUCCESS);
	// The second export makes a new open file.
	CHECK_INT(act_with(&owner, EXPORT, NULL, 0, -1, &again).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&other, IMPORT, NULL, 0, again, NULL).result, CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	close(fd);
	close(again);
	CHECK_INT(act(&owner, RELEASE, 0), CUDA_SUCCESS);
	// In this call, the interposer refunds the memory of which all descriptors are closed.
	CHECK_INT(act(&owner, GET_INFO, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(vg_ledger_shared_charge(tenant_ledger), 160 * MIB);
	CHECK_INT(act(&user, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&other, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}

TEST(importers_cannot_export_again)
{
	int fd;

	begin();
	CHECK_INT(act_with(&owner, CREATE, NULL, 64 * MIB, -1, &fd).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&user, EXPORT, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(charged(), 3 * CONTEXT + 64 * MIB);
	close(fd);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(act(&owner, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(act(&owner, GET_INFO, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}

static struct act pool_pointer(uint64_t bytes, int *ret_fd)
{
	CHECK_INT(act_with(&owner, POOL, NULL, 0, -1, ret_fd).result, CUDA_SUCCESS);
	CHECK_INT(act(&owner, POOL_ALLOC, bytes), CUDA_SUCCESS);
	struct act pointer = act_with(&owner, GET_POINTER, NULL, 0, -1, NULL);
	CHECK_INT(pointer.result, CUDA_SUCCESS);
	return pointer;
}

// Tests pools. An exported pool stays charged with the most memory that it ever had. Opened memory stays charged until
// the importer destroys its pool.
TEST(pools_are_charged_once)
{
	int fd;

	begin();
	struct act pointer = pool_pointer(150 * MIB, &fd);
	uint64_t all = 3 * CONTEXT + 160 * MIB;
	CHECK_INT(charged(), all);
	CHECK_INT(act_with(&user, POOL_IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, OPEN_POINTER, &pointer, 0, -1, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&other, POOL_IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	close(fd);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&owner, FREE_ASYNC, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&owner, POOL_DESTROY, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(vg_ledger_shared_charge(tenant_ledger), 160 * MIB);
	CHECK_INT(act(&other, POOL_DESTROY, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, FREE_ASYNC, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), all);
	CHECK_INT(act(&user, POOL_DESTROY, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}

TEST(pools_without_importers_end_with_their_owner)
{
	int fd;

	begin();
	pool_pointer(96 * MIB, &fd);
	close(fd);
	CHECK_INT(act(&owner, FREE_ASYNC, 0), CUDA_SUCCESS);
	// The pool has enough unused memory for this allocation.
	CHECK_INT(act(&owner, POOL_ALLOC, 40 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT + 96 * MIB);
	CHECK_INT(act(&owner, POOL_DESTROY, 0), CUDA_SUCCESS);
	// One allocation of the pool is left.
	CHECK_INT(charged(), 3 * CONTEXT + 96 * MIB);
	CHECK_INT(act(&owner, FREE_ASYNC, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}

// Lets the pool grow after its import. The driver frees the pool's memory only when all its pointers are closed and all
// its imports are destroyed.
TEST(pools_of_an_ended_owner_stay_charged_while_open)
{
	int fd;

	begin();
	struct act pointer = pool_pointer(20 * MIB, &fd);
	CHECK_INT(act_with(&user, POOL_IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, POOL_IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, OPEN_POINTER, &pointer, 0, -1, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&owner, POOL_ALLOC, 40 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT + 64 * MIB);
	actor_kill(&owner);
	reap();
	CHECK_INT(charged(), 2 * CONTEXT + 64 * MIB);
	CHECK_INT(act(&user, POOL_DESTROY, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(act(&user, FREE_ASYNC, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 64 * MIB);
	CHECK_INT(act(&user, POOL_DESTROY, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 64 * MIB);
	CHECK_INT(act(&user, POOL_DESTROY, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT);
	close(fd);
	owner = actor_start();
	end_all();
}

static void owner_outside(void)
{
	actor_end(&owner);
	reap();
	unsetenv("VIRGATE_LEDGER");
	owner = actor_start();
	setenv("VIRGATE_LEDGER", tenant_ledger_path, 1);
	CHECK_INT(act(&owner, START, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT);
}

// Opens memory of a program outside all vGPUs. It must be charged to the first process of a vGPU that opens it, once in
// each vGPU.
TEST(memory_from_outside_is_charged_once)
{
	begin();
	owner_outside();
	struct act handle = handle_of(160 * MIB);
	CHECK_INT(charged(), 2 * CONTEXT);
	CHECK_INT(opens(&user, &handle), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	CHECK_INT(opens(&other, &handle), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	actor_kill(&user);
	reap();
	CHECK_INT(charged(), CONTEXT + 160 * MIB);
	CHECK_INT(act(&other, CLOSE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), CONTEXT);
	user = actor_start();
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	handle = handle_of(320 * MIB);
	CHECK_INT(opens(&other, &handle), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(charged(), CONTEXT);
	end_all();
}

TEST(descriptors_from_outside_are_charged_once)
{
	int fd;

	begin();
	owner_outside();
	CHECK_INT(act_with(&owner, CREATE, NULL, 160 * MIB, -1, &fd).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	// The import does not reveal the size, so 2 MiB are charged.
	CHECK_INT(charged(), 2 * CONTEXT + 2 * MIB);
	CHECK_INT(act(&user, MAP, 160 * MIB), CUDA_SUCCESS);
	CHECK_INT(act_with(&other, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&other, MAP, 160 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	CHECK_INT(act(&user, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 160 * MIB);
	CHECK_INT(act(&other, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&other, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT);
	close(fd);
	end_all();
}

// Both processes import the memory before the interposer knows its size.
TEST(descriptors_mapped_by_two_importers_are_charged_once)
{
	int fd;

	begin();
	owner_outside();
	CHECK_INT(act_with(&owner, CREATE, NULL, 100 * MIB, -1, &fd).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&other, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 4 * MIB);
	CHECK_INT(act(&user, MAP, 100 * MIB), CUDA_SUCCESS);
	CHECK_INT(act(&other, MAP, 100 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 100 * MIB);
	CHECK_INT(act(&user, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * CONTEXT + 100 * MIB);
	close(fd);
	end_all();
}

TEST(failed_opens_change_nothing)
{
	begin();
	struct act handle = handle_of(64 * MIB), nonsense = {.bytes = "nonsense"};
	CHECK(opens(&user, &nonsense) != CUDA_SUCCESS);
	// A process cannot open its own handle.
	CHECK(act_with(&owner, OPEN, &handle, 0, -1, NULL).result != CUDA_SUCCESS);
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 3 * CONTEXT);
	CHECK(opens(&user, &handle) != CUDA_SUCCESS); // the owner has freed the memory
	CHECK_INT(charged(), 3 * CONTEXT);
	end_all();
}
