#include <stdlib.h>
#include <string.h>

#include "ledger/ledger.h"
#include "shim/export.h"
#include "shim/hello.h"
#include "wire/wire.h"

bool shim_hello(const char *vgpu, bool wait)
{
	const char *socket = getenv("VIRGATE_SOCKET");
	struct vg_wire_hello hello = {0};
	struct vg_ledger_owner self;

	if (!socket || !*socket || vg_ledger_self(&self) != 0)
		return false;
	hello.pid = self.pid;
	hello.pid_namespace = self.pid_namespace;
	hello.start_time = self.start_time;
	strncpy(hello.ledger, vgpu, sizeof hello.ledger - 1);
	return vg_wire_say_hello(socket, &hello, shim_exports_descriptor(), wait) == 0;
}
