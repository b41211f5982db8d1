#include "base/hash.h"
#include "test.h"

// The inputs and hashes are those that the reference implementation publishes.
TEST(hash_matches_published_vectors)
{
	CHECK(vg_hash_text("") == UINT64_C(0xcbf29ce484222325));
	CHECK(vg_hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
	CHECK(vg_hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

TEST(hash_continues)
{
	CHECK(vg_hash_add(vg_hash_text("foo"), "bar", 3) == vg_hash("foobar", 6));
}
