// Tests tenants in containers, each with a pid namespace of its own.
#include "daemon_fixture.h"

#include <sched.h>

// Starts a tenant in a new pid namespace, as its process 1. Returns its pid outside.
static pid_t start_contained_tenant(bool is_registered)
{
	char path[400], byte = 0;
	int ready[2];

	snprintf(path, sizeof path, "%s/ledgers/c", runtime_dir);
	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(1);
		pid_t inner = fork();
		if (inner == 0) {
			struct vg_ledger *ledger;
			struct vg_ledger_owner self;
			struct vg_wire_registration registration = {.ledger = "c"};
			byte = getpid() == 1 && vg_ledger_open(path, &ledger) == 0 &&
			       vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB) == 0 && vg_ledger_self(&self) == 0;
			registration.pid = self.pid, registration.pid_namespace = self.pid_namespace,
			registration.start_time = self.start_time;
			if (is_registered)
				vg_wire_register(socket_path, &registration, -1);
			if (write(ready[1], &byte, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		if (write(ready[1], &inner, sizeof inner) < 0)
			_exit(1);
		waitpid(inner, NULL, 0);
		_exit(0);
	}
	close(ready[1]);
	pid_t outer = 0;
	char bytes[sizeof outer + 1];
	size_t got = 0;
	while (got < sizeof bytes) {
		ssize_t length = read(ready[0], bytes + got, sizeof bytes - got);
		if (length <= 0)
			SKIP("no new pid namespaces here");
		got += (size_t)length;
	}
	close(ready[0]);
	// The tenant writes the byte 1, and its parent writes the outer pid. Their bytes can arrive in either order.
	if (bytes[0] == 1 && bytes[4] != 1)
		memcpy(&outer, bytes + 1, sizeof outer);
	else
		memcpy(&outer, bytes, sizeof outer);
	return outer;
}

// Waits until the daemon lists a tenant of the vGPU, and returns its pid. The tenant has not registered, so the daemon
// must search for it.
static pid_t await_listed_pid(const char *name)
{
	json_int_t pid = 0;

	for (int i = 0; i < 1000 && !pid; i++) {
		json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
		const json_t *tenants = json_object_get(json_object_get(reply, "vgpu"), "tenants");
		pid = json_integer_value(json_object_get(json_array_get(tenants, 0), "pid"));
		json_decref(reply);
		if (!pid)
			poll(NULL, 0, 5);
	}
	return (pid_t)pid;
}

static void check_contained_tenant(bool is_registered)
{
	if (geteuid() != 0)
		SKIP("only root can make a pid namespace here");
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", GIB));
	pid_t outer = start_contained_tenant(is_registered);
	CHECK_INT(figure("c", "charged"), MIB);
	CHECK_INT(await_listed_pid("c"), outer);
	CHECK_INT(kill(outer, 0), 0);
	poll(NULL, 0, 600); // in this time, the daemon must not reap the tenant
	CHECK_INT(figure("c", "charged"), MIB);
	kill_daemon();
	start_daemon();
	CHECK_INT(figure("c", "charged"), MIB);
	CHECK_SIGNALLED("c", SIGKILL, 1);
	CHECK(await_figure("c", "charged", 0, 2000) >= 0);
}

TEST(registered_tenant_in_a_container_is_found)
{
	check_contained_tenant(true);
}

TEST(unregistered_tenant_in_a_container_is_found)
{
	check_contained_tenant(false);
}

// Returns whether the daemon lists the vGPU.
static bool is_listed(const char *name)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	bool is_there = json_is_true(json_object_get(reply, "ok"));

	json_decref(reply);
	return is_there;
}

static void check_container_of_tenant(const char *name, const char *id)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	json_t *tenant = json_array_get(json_object_get(json_object_get(reply, "vgpu"), "tenants"), 0);

	CHECK_STR(json_string_value(json_object_get(tenant, "container")), id);
	CHECK_STR(json_string_value(json_object_get(tenant, "image")), "some/image:1");
	json_decref(reply);
}

// Enters a container whose first process is a tenant. The container's vGPU must be in use until that process ends.
TEST(vgpu_of_a_container_ends_with_its_first_process)
{
	if (geteuid() != 0)
		SKIP("only root can make a pid namespace here");
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", GIB));
	pid_t first = start_contained_tenant(true);
	CHECK_AGREED(ask("{'op':'enter','vgpu':'c','container':{'pid':%d,'id':'0123abcd','image':'some/image:1'}}",
			 (int)first));
	CHECK_AGREED(ask("{'op':'enter','name':'own','memory':%llu,'container':{'pid':%d,'id':'0123abcd'}}", GIB,
			 (int)first));
	CHECK_INT(await_listed_pid("c"), first);
	check_container_of_tenant("c", "0123abcd");
	kill_daemon();
	start_daemon(); // the new daemon reads the container from the file that the killed daemon wrote
	CHECK_INT(await_listed_pid("c"), first);
	check_container_of_tenant("c", "0123abcd");
	CHECK(is_listed("own"));
	CHECK_INT(kill(first, SIGKILL), 0);
	for (int i = 0; i < 2000 && is_listed("own"); i++)
		poll(NULL, 0, 5);
	CHECK(!is_listed("own"));
	CHECK(await_figure("c", "charged", 0, 5000) >= 0);
}

TEST(invalid_containers_are_refused)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", GIB));
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'c','container':{'pid':%d}}", (int)getpid()), "invalid", "an \"id\"");
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'c','container':{'pid':%d,'id':'../x'}}", (int)getpid()), "invalid",
		      "an \"id\"");
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'c','container':{'pid':0,'id':'ab'}}"), "not_found", "has ended");
	CHECK_REFUSED(ask("{'op':'enter','name':'own','memory':%llu,'container':{'pid':4194999,'id':'ab'}}", GIB),
		      "not_found", "has ended");
	CHECK(!is_listed("own"));
}
