#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/records.h"

enum { SHARD_BITS = 6, SHARDS = 1 << SHARD_BITS, FIRST_CAPACITY = 64 };

// Open addressing with linear probing; `what` 0 marks a free place. A shard is a cache line
// of its own, so that threads seldom meet.
struct shard {
	pthread_mutex_t lock;
	struct shim_record *records;
	size_t capacity, count;
} __attribute__((aligned(64)));

static struct shard shards[SHARDS] = {[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static uint64_t hash(enum shim_what what, uint64_t key)
{
	uint64_t mixed = (key >> 8 ^ key << 24 ^ (uint64_t)what << 56) * 0x9e3779b97f4a7c15ull;

	return mixed ^ mixed >> 32;
}

static struct shard *shard_of(uint64_t hashed)
{
	return &shards[hashed >> (64 - SHARD_BITS)];
}

static size_t place(const struct shard *shard, uint64_t hashed, enum shim_what what, uint64_t key)
{
	size_t i = hashed & (shard->capacity - 1);

	while (shard->records[i].what && (shard->records[i].what != what || shard->records[i].key != key))
		i = (i + 1) & (shard->capacity - 1);
	return i;
}

static int grow(struct shard *shard)
{
	size_t capacity = shard->capacity ? shard->capacity * 2 : FIRST_CAPACITY;
	struct shim_record *old = shard->records, *records = calloc(capacity, sizeof *records);
	size_t old_capacity = shard->capacity;

	if (!records)
		return -ENOMEM;
	shard->records = records;
	shard->capacity = capacity;
	for (size_t i = 0; i < old_capacity; i++)
		if (old[i].what)
			records[place(shard, hash(old[i].what, old[i].key), old[i].what, old[i].key)] = old[i];
	free(old);
	return 0;
}

// Closes the gap, so that later records of the same run are still found.
static void erase(struct shard *shard, size_t gap)
{
	size_t mask = shard->capacity - 1;

	for (size_t i = (gap + 1) & mask; shard->records[i].what; i = (i + 1) & mask) {
		size_t home = hash(shard->records[i].what, shard->records[i].key) & mask;
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			shard->records[gap] = shard->records[i];
			gap = i;
		}
	}
	shard->records[gap].what = 0;
	shard->count--;
}

// With the shard locked: where the record of this key is or may be stored, NULL for lack of
// memory.
static struct shim_record *find_place(struct shard *shard, uint64_t hashed, const struct shim_record *record)
{
	if (shard->count * 4 >= shard->capacity * 3 && grow(shard) != 0 && shard->count + 1 >= shard->capacity)
		return NULL;
	return &shard->records[place(shard, hashed, record->what, record->key)];
}

int shim_record_put(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;

	pthread_mutex_lock(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at) {
		shard->count += !at->what;
		*at = *record;
	}
	pthread_mutex_unlock(&shard->lock);
	return at ? 0 : -ENOMEM;
}

int shim_record_join(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;
	int result = -ENOMEM;

	pthread_mutex_lock(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at && at->what) {
		at->references++;
		result = 1;
	} else if (at) {
		*at = *record;
		at->references = 1;
		shard->count++;
		result = 0;
	}
	pthread_mutex_unlock(&shard->lock);
	return result;
}

// The record's place with its shard locked, or NULL with nothing locked.
static struct shim_record *lock_record(enum shim_what what, uint64_t key, struct shard **ret_shard)
{
	uint64_t hashed = hash(what, key);
	struct shard *shard = shard_of(hashed);

	pthread_mutex_lock(&shard->lock);
	if (shard->capacity) {
		struct shim_record *record = &shard->records[place(shard, hashed, what, key)];
		if (record->what) {
			*ret_shard = shard;
			return record;
		}
	}
	pthread_mutex_unlock(&shard->lock);
	return NULL;
}

bool shim_record_find(enum shim_what what, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	pthread_mutex_unlock(&shard->lock);
	return true;
}

bool shim_record_take(enum shim_what what, uint64_t key, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	*ret_record = *record;
	erase(shard, (size_t)(record - shard->records));
	pthread_mutex_unlock(&shard->lock);
	return true;
}

bool shim_record_count(enum shim_what what, uint64_t key, int change, struct shim_record *ret_record)
{
	struct shard *shard;
	struct shim_record *record = lock_record(what, key, &shard);

	if (!record)
		return false;
	record->references += (uint32_t)change;
	*ret_record = *record;
	if (record->references == 0)
		erase(shard, (size_t)(record - shard->records));
	pthread_mutex_unlock(&shard->lock);
	return true;
}

int shim_record_grow(const struct shim_record *record)
{
	uint64_t hashed = hash(record->what, record->key);
	struct shard *shard = shard_of(hashed);
	struct shim_record *at;

	pthread_mutex_lock(&shard->lock);
	at = find_place(shard, hashed, record);
	if (at && at->what) {
		at->bytes += record->bytes;
	} else if (at) {
		*at = *record;
		shard->count++;
	}
	pthread_mutex_unlock(&shard->lock);
	return at ? 0 : -ENOMEM;
}

struct wanted {
	const void *context; // NULL: by the other two
	const void *data;
	enum shim_what what;
};

static bool is_wanted(const struct shim_record *record, const struct wanted *wanted)
{
	if (wanted->context)
		return record->what && record->context == wanted->context;
	return record->what == wanted->what && record->data == wanted->data;
}

static bool take_one_of(struct shard *shard, const struct wanted *wanted, struct shim_record *ret_record)
{
	bool found = false;

	pthread_mutex_lock(&shard->lock);
	for (size_t i = 0; i < shard->capacity && !found; i++) {
		if (is_wanted(&shard->records[i], wanted)) {
			*ret_record = shard->records[i];
			erase(shard, i);
			found = true;
		}
	}
	pthread_mutex_unlock(&shard->lock);
	return found;
}

static void sweep(const struct wanted *wanted, void (*take)(const struct shim_record *record))
{
	struct shim_record record;

	for (size_t i = 0; i < SHARDS; i++)
		while (take_one_of(&shards[i], wanted, &record))
			take(&record);
}

void shim_record_sweep_data(enum shim_what what, const void *data, void (*take)(const struct shim_record *record))
{
	sweep(&(struct wanted){.data = data, .what = what}, take);
}

void shim_record_sweep(const void *context, void (*take)(const struct shim_record *record))
{
	if (context)
		sweep(&(struct wanted){.context = context}, take);
}
