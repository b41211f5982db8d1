// Sends the daemon an epoll instance with so many entries that the kernel takes long to list them.
#include "victim.h"

#include "ledger/layout.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static void make_vgpu(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':268435456}"));
}

// Makes an epoll instance with very many entries. An entry exists as long as its file is open, even after its
// descriptor was closed.
static int make_items(unsigned int files)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), top = (int)sysconf(_SC_OPEN_MAX) - 100;

	for (unsigned int i = 0; i < files; i++) {
		int file = eventfd(0, EFD_CLOEXEC);
		struct epoll_event event = {.data.u64 = i};
		CHECK(file >= 0);
		for (int fd = 100; fd < top; fd++) {
			CHECK_INT(dup2(file, fd), fd);
			if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
				return epoll; // the user cannot add more entries
		}
		close_range(100, (unsigned int)top, 0);
	}
	return epoll;
}

static void die_with_items(void)
{
	struct vg_wire_registration registration = {.ledger = "a"};
	struct vg_ledger_owner self;
	struct vg_ledger *ledger;
	char path[400];
	int epoll = make_items(20);

	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	for (int i = 0;; i++) {
		pid_t tenant = fork();
		if (tenant == 0) {
			if (vg_ledger_open(path, &ledger) != 0 ||
			    vg_ledger_reserve(ledger, VG_LEDGER_VMM, 4 * MIB) != 0 || vg_ledger_self(&self) < 0)
				_exit(0); // the vGPU has no room for another tenant
			vg_ledger_set_exported(ledger, 4 * MIB, 0);
			registration.pid = self.pid, registration.pid_namespace = self.pid_namespace,
			registration.start_time = self.start_time;
			_exit(vg_wire_register_and_wait(socket_path, &registration, epoll) < 0);
		}
		waitpid(tenant, NULL, 0);
		if (i == 0)
			attack_begins();
		poll(NULL, 0, 20);
	}
}

TEST(epoll_instances_with_very_many_entries)
{
	fresh_system();
	run_user(alice, make_vgpu);
	pid_t attacker = start_attack(die_with_items);
	check_victim("an epoll instance with very many items");
	end_user(attacker);
}
