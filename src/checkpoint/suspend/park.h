// Parks tenants of evictable vGPUs before a dump: their pagers move device memory to the host, into files, and unmap
// the files (pager/page.h). So neither the driver nor CRIU saves that memory. For a deep suspension, the host memory
// stays mapped and pinned. One thread.
#pragma once
#include "checkpoint/device/out.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/tenant/tenant.h"
#include "pager/host_file.h"
#include "pager/page.h"

// A file with the device memory of one process.
struct parked {
	pid_t pid;
	uint64_t start_time;
	int directory; // descriptor of the directory with the file, as the process sees it
	char name[PAGER_FILE_NAME];
	uint64_t bytes;
	bool knows_window; // after a restore, the process can take its memory from a window (pager/window.h)
};

struct parking {
	struct parked *list; // the processes that have a file
	size_t count;
	uint64_t bytes; // size of all files
};

// Returns whether a process of the tree is in an evictable vGPU.
bool parking_concerns(const struct tenants *tenants);
// Returns how much memory the processes will put into files, as their pagers reported it before tenants_find().
uint64_t parking_estimate(const struct tenants *tenants);
struct parking_wish {
	unsigned drain_ms;
	const char *limit; // the option that sets `drain_ms`, for messages
	// For `suspend --deep`. Processes of vGPUs that are not evictable are asked to park, too. parking_release()
	// does not withdraw the request, so that the processes also wait after the driver has taken them off the GPU.
	bool is_deep;
	// Called once, if there are files, as soon as all memory that leaves the GPU is in the files. The pagers may
	// still unpin and unmap the files then, and that may fail. So the bytes that are read are valid only if
	// parking_begin() succeeds. If `read` fails, parking_begin() returns its status. NULL: not called.
	enum vg_status (*read)(void *user, const struct parking *parking);
	void *user;
};
// Asks the processes to park, and waits until they have. If there is too little host memory for a process, its memory
// stays on the GPU, and its pager stays idle until parking_release(). The caller must call parking_release() after
// every outcome. NOT_READY (the work of a process does not end within `drain_ms`), SUSPENDED, HOST_FILE, DRIVER, STATE
// (the progress function asked to stop, or memory moved while `read` read it), SYSTEM, NO_MEMORY.
enum vg_status parking_begin(const struct tenants *tenants, const struct parking_wish *how, struct phase *phase,
			     struct parking *ret_parking);
// Records that the driver has taken the processes with a deep request off the GPU.
void parking_mark_deep(const struct tenants *tenants);
// Opens the files for reading. SYSTEM, INTEGRITY (a file does not belong to its process).
enum vg_status parking_open(const struct parking *parking, struct device_source **ret_sources);
// Withdraws the requests to park: the processes use their memory again, and move it to the GPU unless they are
// suspended. Returns the number of processes that were parked or asked to park. Also releases processes that a killed
// dump has left parked.
size_t parking_release(const struct tenants *tenants);
// Checks that the restore of no process was killed before the memory of the process was back: then the process ends.
// STATE.
enum vg_status parking_refuse_lost(const struct tenants *tenants);
// Releases processes like parking_release(), except those with a deep request. The driver may have failed to restore
// such a process. Then its request must stay, so that its pager stays idle and the next attempt finds the process.
void parking_release_dumped(const struct tenants *tenants);
// Removes the files of processes that have ended, and frees the list.
void parking_finish(struct parking *parking);

// ---- a restore -----------------------------------------------------------------------------------------

// Removes old pagers' files from the file system, and checks that it has room for `bytes`. HOST_MEMORY.
enum vg_status parking_check_room(uint64_t bytes);
// Creates an empty file for the memory of a stopped process that CRIU has restored, and adds it to the list. *ret_fd:
// its descriptor. SYSTEM, NO_MEMORY.
enum vg_status parking_make(struct parking *parking, pid_t pid, int *ret_fd, struct pager_file *ret_file);
// Links an unnamed file into the process's /dev/shm, and adds it to the list. On failure, returns false and changes
// nothing.
bool parking_adopt(struct parking *parking, pid_t pid, int fd, struct pager_file *ret_file);
// Stores in the slot of a restored process which file has its memory, and what that file is. Then wakes its pager. The
// slot's ledger is guarded (ledger/guard.h).
void parking_tell_source(struct pager_slot *slot, const struct pager_file *file, enum pager_source source);
// Removes the first file of this process in the list, and its entry.
void parking_remove_first(struct parking *parking, pid_t pid);
// Removes the files in the list, and frees the list.
void parking_remove(struct parking *parking);

// ---- this directory only -------------------------------------------------------------------------------

// Adds the file of a process to the list, unless its number is 0: then no memory of the process is in a file.
// `knows_window`: see struct parked. SYSTEM, NO_MEMORY.
enum vg_status parking_find_file(pid_t pid, const struct pager_file *file, bool knows_window, struct parking *parking);
