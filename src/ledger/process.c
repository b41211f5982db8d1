#include "ledger/process.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int ledger_process_create(struct ledger_process **ret_process)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (madvise(page, size, MADV_WIPEONFORK) < 0) {
		int error = errno;
		munmap(page, size);
		return -error;
	}
	*ret_process = page;
	return 0;
}

void ledger_process_destroy(struct ledger_process *process)
{
	munmap(process, (size_t)sysconf(_SC_PAGESIZE));
}
