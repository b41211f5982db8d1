// Defines the layout of a ledger file, and the operation by which a process changes a charge. Only files of src/ledger
// include this header.
//
// The word `account` of the header is {charged, tag}. Only cmpxchg16b changes it. The tag says which operation changed
// it last: {slot + 1, sequence, limit generation}. `sequence` numbers the operations of a slot. Each slot has one
// writer: its process. To change the account, the writer
//   1. writes its intent {delta, sequence}, the operation that it begins, into its slot,
//   2. raises `applied` of the slot in the current tag to the sequence in that tag, because step 3 overwrites the tag,
//   3. swaps the account: adds delta to `charged`, and replaces the tag with that of its own operation,
//   4. stores the result in its slot: used[sequence & 1], then done.
// Step 3 applies the operation. At first the tag shows this. When another operation has replaced the tag, `applied`
// shows it. If the writer of a slot is killed at any point, the part of `charged` that belongs to its slot is exactly
//   used[done & 1] + (intent is done + 1 && (tag is of this intent || applied >= done + 1) ? delta : 0)
//
// A shared allocation (struct ledger_shared) has its own account, which a slot changes in the same way. The slot's
// intent says which account is meant. A charge that passes from a slot to a shared allocation does not change the
// header's account. So
//   charged = sum over the slots + sum over the shared allocations without an owner.
#pragma once
#include "ledger/shared.h"
#include "pager/page.h"
#include "turn/page.h"

// Value of `image` while the daemon refunds the charges of the program that the process ran before exec.
#define LEDGER_IMAGE_REAPED ((ledger_word)1)

enum { LEDGER_VERSION = 7, LEDGER_HEADER_SIZE = 4096, LEDGER_NO_SLOT = 0 };
#define LEDGER_MAGIC 0x524744454c544756u // "VGTLEDGR"

// How often to try again: to read consistent values (LEDGER_TRIES), and to do an operation for another process
// (LEDGER_ATTEMPTS). A tenant that writes to the ledger all the time must not block the daemon.
enum { LEDGER_TRIES = 1000, LEDGER_ATTEMPTS = 10000 };

typedef unsigned __int128 ledger_word;

// LEDGER_HOST: a program that also uses device memory outside the vGPU (vg_ledger_set_host).
enum ledger_role { LEDGER_TENANT, LEDGER_GUEST, LEDGER_HOST };

struct ledger_slot {
	_Alignas(256) ledger_word owner; // start time << 64 | pid namespace << 32 | pid; 0: free
	// Identifies the program of the process: vg_ledger_program_of() << 64 | random number. exec changes both
	// parts.
	ledger_word image;
	uint64_t generation; // incremented whenever the slot is freed
	// The operation that the process is doing: it changes the charge by `intent_delta` bytes. Its number is one
	// higher than `done`, the number of the last complete operation. Another value: there is no operation.
	uint64_t intent_sequence;
	int64_t intent_delta;
	uint64_t done;
	// The bytes charged to the slot: used[done & 1] is valid. An operation needs only the first two cache lines of
	// the slot.
	uint64_t used[2];
	uint64_t apart;	     // the part of `used` that is not declared memory (ledger_kind_is_declared())
	uint64_t peak;	     // highest number of declared bytes since the daemon last cleared this member
	uint64_t undeclared; // undeclared memory in bytes, as the daemon last measured it
	// Every operation of this slot up to this sequence number has changed its account. Any process writes this
	// member, before it replaces the slot's tag (step 2 above).
	uint64_t applied;
	uint64_t exported, adrift; // as in vg_ledger_set_exported()
	uint64_t by_kind[VG_LEDGER_KIND_COUNT];
	uint64_t entered_ns;
	uint64_t outer_start_time;
	uint32_t outer_pid;
	// The account that the intent changes: 1 + index of a shared allocation; 0: the header's account.
	uint16_t intent_shared;
	uint8_t pristine, role; // `role`: enum ledger_role
	char command[VG_LEDGER_COMMAND];
};

struct ledger_refusal_entry {
	_Alignas(128) uint64_t number; // number of the refusal, from 1
	uint64_t check;		       // checksum; wrong if its writer was killed
	struct vg_ledger_refusal refusal;
};

// A shared allocation. One half of its account is the word of ledger_shared_word(), in place of `charged`; the other
// half is a tag. `holders` has a bit for the slot of each holder, but not for the owner's slot.
struct ledger_shared {
	_Alignas(64) ledger_word account;
	uint64_t away; // as in vg_ledger_shared_set_away()
	uint64_t holders[VG_LEDGER_SLOTS / 64];
};

// A hash table of names. An entry is one word: {key, number of a shared allocation}. An entry with an invalid number is
// free.
enum { LEDGER_NAMES = 8192, LEDGER_NAME_TRIES = 64 };

struct ledger_header {
	uint64_t magic;
	uint32_t version;
	uint32_t size; // size of the file in bytes
	char name[VG_LEDGER_NAME];
	uint8_t uuid[16];
	uint32_t flags;
	uint32_t share_percent;
	uint64_t context_overhead;
	uint64_t limits[2];	 // limits[limit generation & 1] is the current limit
	uint64_t admin_sequence; // number of attempts to change the limit; makes the tag of each attempt different
	uint64_t swap, fixed;
	uint64_t enters;
	uint64_t refusals;	// number of refusals since creation
	uint32_t slots_touched; // slots from this index on were never used
	uint32_t shared_touched;
	_Alignas(64) ledger_word account;
	uint64_t ceiling; // as in vg_ledger_ceiling()
};

struct ledger_file {
	struct ledger_header header;
	_Alignas(LEDGER_HEADER_SIZE) struct ledger_refusal_entry refusals[VG_LEDGER_REFUSALS];
	_Alignas(LEDGER_HEADER_SIZE) struct ledger_slot slots[VG_LEDGER_SLOTS];
	_Alignas(LEDGER_HEADER_SIZE) struct ledger_shared shared[VG_LEDGER_SHARED_COUNT];
	_Alignas(LEDGER_HEADER_SIZE) ledger_word names[LEDGER_NAMES];
	// For each slot: the address, in the memory of its process, at which the process stores the number of the slot.
	_Alignas(LEDGER_HEADER_SIZE) uint64_t processes[VG_LEDGER_SLOTS];
	_Alignas(LEDGER_HEADER_SIZE) struct turn_page turn;
	struct turn_slot turns[VG_LEDGER_SLOTS]; // indexed by slot
	_Alignas(LEDGER_HEADER_SIZE) struct pager_page pager;
	struct pager_slot pagers[VG_LEDGER_SLOTS]; // indexed by slot
};
_Static_assert(sizeof(struct ledger_slot) == 256, "a slot is 256 bytes");
_Static_assert(sizeof(struct ledger_refusal_entry) == 128, "a refusal is 128 bytes");

struct ledger_account {
	uint64_t charged, tag;
};

// Packs the account of a shared allocation into 64 bits. From the highest bit: 1 bit that is set while the allocation
// exists, 20 bits for the generation, 11 for the owner's slot + 1, 32 for the number of pages of 4 KiB.
enum { LEDGER_PAGE_SHIFT = 12, LEDGER_GENERATIONS = 1 << 20 };
#define LEDGER_SHARED_LIVE (1ull << 63)
static inline uint64_t ledger_shared_word(uint32_t generation, unsigned int owner_number, uint64_t bytes)
{
	return LEDGER_SHARED_LIVE | (uint64_t)(generation % LEDGER_GENERATIONS) << 43 | (uint64_t)owner_number << 32 |
	       bytes >> LEDGER_PAGE_SHIFT;
}
static inline uint32_t ledger_shared_generation(uint64_t word)
{
	return word >> 43 & (LEDGER_GENERATIONS - 1);
}
static inline unsigned int ledger_shared_owner(uint64_t word)
{
	return word >> 32 & 0x7ff;
}
static inline uint64_t ledger_shared_bytes(uint64_t word)
{
	return (word & UINT32_MAX) << LEDGER_PAGE_SHIFT;
}
static inline uint32_t ledger_shared_number(unsigned int index, uint64_t word)
{
	return ledger_shared_generation(word) << VG_LEDGER_SHARED_BITS | (index + 1);
}
static inline bool ledger_shared_is_orphan(uint64_t word)
{
	return (word & LEDGER_SHARED_LIVE) && ledger_shared_owner(word) == 0;
}

// Return the parts of a tag.
static inline unsigned int ledger_tag_slot(uint64_t tag)
{
	return (unsigned int)(tag >> 53); // slot + 1; 0: no slot made this operation (creation, a new limit)
}
static inline uint64_t ledger_tag_sequence(uint64_t tag)
{
	return tag >> 7 & ((1ull << 46) - 1);
}
static inline unsigned int ledger_tag_limit(uint64_t tag)
{
	return tag & 127;
}
static inline uint64_t ledger_tag(unsigned int slot_number, uint64_t sequence, unsigned int limit)
{
	return (uint64_t)slot_number << 53 | (sequence & ((1ull << 46) - 1)) << 7 | (limit & 127);
}

#define LEDGER_LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define LEDGER_STORE(p, value) __atomic_store_n(&(p), value, __ATOMIC_RELEASE)

// Raises `count`, which is slots_touched or shared_touched of the header, to at least `index` + 1. Entries of the table
// (slots or shared allocations) from the count on were never used.
static inline void ledger_touch(uint32_t *count, unsigned int index)
{
	uint32_t seen = LEDGER_LOAD(*count);

	while (seen <= index &&
	       !__atomic_compare_exchange_n(count, &seen, index + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
}
// Returns the header's count of entries ever used, bounded by the table's size, because a tenant may have written any
// value.
static inline unsigned int ledger_touched(const uint32_t *count, unsigned int table_size)
{
	uint32_t touched = LEDGER_LOAD(*count);

	return touched < table_size ? touched : table_size;
}

static inline unsigned int ledger_slots_touched(const struct ledger_file *file)
{
	return ledger_touched(&file->header.slots_touched, VG_LEDGER_SLOTS);
}

// Compares and swaps with cmpxchg16b. The compiler's builtin is not used, because the thread sanitizer replaces it by a
// lock within the process. Stores the previous value in *expected.
static inline bool ledger_word_swap(ledger_word *word, ledger_word *expected, ledger_word desired)
{
	uint64_t low = (uint64_t)*expected, high = (uint64_t)(*expected >> 64);
	bool swapped;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(swapped), "+m"(*word), "+a"(low), "+d"(high)
			 : "b"((uint64_t)desired), "c"((uint64_t)(desired >> 64))
			 : "memory");
	*expected = (ledger_word)high << 64 | low;
	return swapped;
}
static inline ledger_word ledger_word_read(ledger_word *word)
{
	ledger_word value = 0;

	ledger_word_swap(word, &value, 0);
	return value;
}
static inline void ledger_word_write(ledger_word *word, ledger_word value)
{
	ledger_word before = ledger_word_read(word);

	while (!ledger_word_swap(word, &before, value))
		;
}
// Reads both halves of an account without a locked instruction. The tag changes with every operation. So `charged` is
// valid if the tag is the same before and after reading it.
static inline struct ledger_account ledger_account_read(const ledger_word *word)
{
	const uint64_t *half = (const uint64_t *)word;
	struct ledger_account account;
	uint64_t again = LEDGER_LOAD(half[1]);
	int tries = 0;

	do {
		account.tag = again;
		account.charged = LEDGER_LOAD(half[0]);
		again = LEDGER_LOAD(half[1]);
	} while (again != account.tag && ++tries < LEDGER_TRIES); // bounded: a tenant may overwrite it all the time
	return account;
}

bool ledger_account_swap(ledger_word *account, struct ledger_account from, struct ledger_account to);
// Notes, in the slot that a tag names, that the tag's operation was applied. Call it before the tag is replaced.
void ledger_note_applied(struct ledger_file *file, uint64_t tag);

// Adds `delta` to the header's account for slot `index`, whose only writer is the caller. Returns 0, VG_LEDGER_REFUSED,
// or -EAGAIN after `attempts` (0: tries without end).
int ledger_operate(struct ledger_file *file, unsigned int index, enum vg_ledger_kind kind, int64_t delta,
		   unsigned long attempts);
// Empties a slot that the caller owns and whose writer has ended: completes the last operation, leaves the shared
// allocations, and refunds all charges except `keep` (NULL: none).
int ledger_slot_refund(struct ledger_file *file, unsigned int index, const struct vg_ledger_keep *keep,
		       unsigned long attempts, uint64_t *ret_refunded);
// Ends the ownership and the holds of a slot in all shared allocations except those in `keep`. Returns 0 or -EAGAIN.
// Defined in shared.c.
int ledger_shared_leave_all(struct ledger_file *file, unsigned int index, const struct vg_ledger_keep *keep,
			    unsigned long attempts);
// Clears and frees a slot that has no charge and no pending operation.
void ledger_slot_free(struct ledger_file *file, unsigned int index);
// Returns whether memory of a kind is declared: NVML counts it for the process, and a call announced it. Managed and
// undeclared memory is not.
static inline bool ledger_kind_is_declared(enum vg_ledger_kind kind)
{
	return kind != VG_LEDGER_MANAGED && kind != VG_LEDGER_UNDECLARED;
}
static inline uint64_t ledger_slot_declared(const struct ledger_slot *slot, uint64_t used)
{
	uint64_t apart = LEDGER_LOAD(slot->apart);

	return used > apart ? used - apart : 0;
}
// Returns what is charged to a slot. While its writer is active, the value may be out of date.
uint64_t ledger_slot_used(const struct ledger_slot *slot);

// Replaces the tag of the header's account. Returns false if the account has changed meanwhile.
bool ledger_replace_tag(struct ledger_file *file, struct ledger_account now, uint64_t tag);

// Locks the slot of this process until ledger_slot_unlock(). Returns 0, or VG_LEDGER_FULL without a lock if the process
// has no slot.
int ledger_slot_lock(const struct vg_ledger *ledger, unsigned int *ret_index);
void ledger_slot_unlock(const struct vg_ledger *ledger);
// Forgets the locked slot, because another process owns it from now on.
void ledger_forget_slot(struct vg_ledger *ledger);
// Finds the slot of a guest, a process that has opened memory of this vGPU, and completes the guest's last operation.
// If the guest has no slot, claims one for `program`; if `program` is NULL, returns VG_LEDGER_GONE.
int ledger_guest_slot(struct ledger_file *file, const struct vg_ledger_owner *process, const uint64_t *program,
		      unsigned int *ret_index);
// Completes or drops the pending operation of a slot whose writer has ended.
void ledger_slot_complete(struct ledger_file *file, unsigned int index);

struct ledger_file *ledger_file_of(const struct vg_ledger *ledger);
ledger_word ledger_owner_word(const struct vg_ledger_owner *owner);
// Creates the object for a mapped file. `fd` is the file, which the caller closes; -1: there is no file.
int ledger_wrap(struct ledger_file *file, int fd, struct vg_ledger **ret_ledger);
// Returns whether the header is valid and of this version.
bool ledger_header_is_valid(const struct ledger_header *header);
void ledger_file_unmap(struct ledger_file *file);

// A hook with which tests kill the process at every step of an operation.
#ifdef LEDGER_STEPS
void ledger_step(const char *where);
#else
#define ledger_step(where) ((void)0)
#endif
