// Checks that images with invalid descriptions or chunks are refused.
#include "checkpoint/data/chunk.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/text.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "random.h"
#include "test.h"

static enum vg_status read_files(const char *text)
{
	json_t *list = json_loads(text, 0, NULL);
	struct image_files files;

	CHECK(list != NULL);
	json_t *description = json_pack("{s:i, s:o}", "version", IMAGE_VERSION, "files", list);
	enum vg_status status = image_files_read(description, "IMAGE", &files);
	if (status == VG_OK)
		image_files_free(&files);
	json_decref(description);
	return status;
}

#define SUM "\"0123456789abcdef\""
#define PAGES(name, bytes, raw, method, chunk, chunks)                                                        \
	"[{\"name\": \"tree-0/" name "\", \"bytes\": " bytes ", \"raw\": " raw ", \"compression\": \"" method \
	"\", \"chunk_bytes\": " chunk ", \"chunks\": [" chunks "]}]"
#define C(stored) "\"0123456789abcdef " stored "\""

TEST(an_invalid_list_of_files_is_refused)
{
	static const char *const wrong[] = {
		"{}",
		"[1]",
		"[{}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": -1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 9223372036854775807, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1.5, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1, \"xxh3\": \"0123456789abcde\"}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1, \"xxh3\": \"0123456789ABCDEF\"}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1, \"xxh3\": \"0123456789abcdef0\"}]",
		"[{\"name\": \"tree-0/../a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/..\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a/b\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"/etc/passwd\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"virgate.json\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-01/a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree--1/a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-4096/a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-99999999999999999999/a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a b\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1, \"xxh3\": " SUM
		"}, {\"name\": \"tree-0/a\", \"bytes\": 1, \"xxh3\": " SUM "}]",
		"[{\"name\": \"tree-0/a\", \"bytes\": 1099511627777, \"xxh3\": " SUM "}]",
		PAGES("p.img", "5", "5", "lzma", "65536", C("5")),
		// The name lacks the suffix of its compression.
		PAGES("p.img", "5", "5", "lz4", "65536", C("5")),
		// The lengths of the chunks do not add up to that of the file.
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("4")),
		// The last chunk is longer than the longest that 5 bytes can need.
		PAGES("p.img.lz4", "9", "5", "lz4", "65536", C("9")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("-5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("05")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("5x")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", "\"0123456789abcdef\""),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("18446744073709551621")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", "5"),
		// Too few chunks.
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", ""),
		// Too many chunks.
		PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("5") ", " C("0")),
		// A decompression bomb.
		PAGES("p.img.lz4", "5", "1152921504606846976", "lz4", "67108864", C("5")),
		PAGES("p.img.lz4", "5", "-5", "lz4", "65536", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "0", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "-65536", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "4096", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "65537", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "134217728", C("5")),
		PAGES("p.img.lz4", "5", "5", "lz4", "4294967296", C("5")),
		// The file is not compressed, but its two lengths differ.
		PAGES("p.img", "5", "6", "none", "65536", C("5")),
		PAGES("p.img", "5", "5", "none", "65536", C("6")),
		"[{\"name\": \"tree-0/p.img\", \"bytes\": 5, \"raw\": 5, \"compression\": \"none\", \"chunk_bytes\": "
		"65536}]",
		"[{\"name\": \"tree-0/p.img\", \"bytes\": 5, \"raw\": 5, \"compression\": \"none\", \"chunk_bytes\": "
		"65536, \"chunks\": {}}]",
		// Two entries describe the same file.
		"[{\"name\": \"tree-0/p.img.lz4\", \"bytes\": 5, \"xxh3\": " SUM
		"}, {\"name\": \"tree-0/p.img.lz4\", \"bytes\": 0, "
		"\"raw\": 5, \"compression\": \"lz4\", \"chunk_bytes\": 65536, \"chunks\": [" C("0") "]}]",
		// Two files would have the same name in CRIU's directory.
		"[{\"name\": \"tree-0/p.img\", \"bytes\": 5, \"xxh3\": " SUM
		"}, {\"name\": \"tree-0/p.img.lz4\", \"bytes\": 0, "
		"\"raw\": 5, \"compression\": \"lz4\", \"chunk_bytes\": 65536, \"chunks\": [" C("0") "]}]",
	};

	CHECK_INT(read_files("[]"), VG_OK);
	CHECK_INT(read_files(PAGES("p.img.lz4", "5", "5", "lz4", "65536", C("5"))), VG_OK);
	CHECK_INT(read_files(PAGES("p.img", "5", "5", "none", "65536", C("0"))), VG_OK);
	CHECK_INT(read_files(PAGES("p.img.zst", "0", "65537", "zstd", "65536", C("0") ", " C("0"))), VG_OK);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		enum vg_status status = read_files(wrong[i]);
		if (status != VG_INTEGRITY)
			FAIL("%s: %s", wrong[i], vg_status_text(status));
		CHECK_CONTAINS(vg_last_error()->text, "IMAGE/virgate.json");
	}
}

TEST(an_invalid_description_is_refused)
{
	static const struct {
		const char *text;
		enum vg_status wanted;
	} cases[] = {
		{"", VG_INTEGRITY},
		{"{", VG_INTEGRITY},
		{"[]", VG_INTEGRITY},
		{"{}", VG_INTEGRITY},
		{"{\"version\": 0}", VG_INTEGRITY},
		{"{\"version\": -1}", VG_INTEGRITY},
		{"{\"version\": \"1\"}", VG_INTEGRITY},
		{"{\"version\": 1}", VG_INTEGRITY}, // no checksum
		{"{\"version\": 1, \"version\": 1}", VG_INTEGRITY},
		{"{\n  \"xxh3\": \"0123456789abcdef\",\n  \"version\": 1\n}", VG_INTEGRITY},
		{"{\"version\": 3}", VG_UNSUPPORTED},
		{"{\"version\": 9223372036854775807}", VG_UNSUPPORTED},
	};
	json_t *parsed;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK_INT(image_parse(cases[i].text, strlen(cases[i].text), "NAME", &parsed), cases[i].wanted);
	json_t *description = json_pack("{s:i, s:s}", "version", 1, "of", "this");
	char *text = image_text_seal(description);
	json_decref(description);
	CHECK_INT(image_parse(text, strlen(text), "NAME", &parsed), VG_OK);
	CHECK_STR(json_string_value(json_object_get(parsed, "of")), "this");
	json_decref(parsed);
	// Text before or after the description makes it invalid.
	char *longer = NULL;
	CHECK(asprintf(&longer, "%s\n", text) > 0);
	CHECK_INT(image_parse(longer, strlen(longer), "NAME", &parsed), VG_INTEGRITY);
	free(longer);
	CHECK(asprintf(&longer, " %s", text) > 0);
	CHECK_INT(image_parse(longer, strlen(longer), "NAME", &parsed), VG_INTEGRITY);
	free(longer);
	free(text);
}

// ---- descriptions that would use too much memory ---------------------------------------------------------

enum { PADDING = 20 << 20 }; // an array with "{}," repeated so many times takes 16 GiB when parsed

// Returns a description with many values, and a right or wrong checksum.
static char *write_padded(bool right, size_t *ret_length)
{
	static const char head[] = "{\n  \"xxh3\": \"0000000000000000\",\n", start[] = "  \"version\": 1, \"pad\": [",
			  end[] = "{}]\n}";
	char sum[IMAGE_SUM_TEXT], *text = malloc(sizeof head + sizeof start + sizeof end + 3 * PADDING), *at = text;

	CHECK(text != NULL);
	at = stpcpy(stpcpy(at, head), start);
	for (size_t i = 0; i < PADDING; i++)
		at = stpcpy(at, "{},");
	at = stpcpy(at, end);
	image_sum_format(sum_bytes(text + strlen(head), (size_t)(at - text) - strlen(head)), sum);
	if (right)
		memcpy(text + strlen("{\n  \"xxh3\": \""), sum, 16);
	*ret_length = (size_t)(at - text);
	return text;
}

// Runs `body` with a limit that lets the process allocate little more memory than it has.
static void in_little_memory(void (*body)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
// Sanitizers need more memory than this limit allows.
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
		setrlimit(RLIMIT_DATA, &(struct rlimit){256 << 20, 256 << 20});
#endif
		body();
		_exit(0);
	}
	CHECK_CHILD(pid);
}

static void parse_padded(bool right, const char *said)
{
	json_t *parsed;
	size_t length;
	char *text = write_padded(right, &length);

	CHECK_INT(image_parse(text, length, "NAME", &parsed), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, said);
	free(text);
}

static void parse_both(void)
{
	parse_padded(false, "NAME is damaged: its first line has another checksum than the rest of it");
	parse_padded(true, "NAME has more than the 4194304 values that an image has at most");
}

TEST(a_description_of_too_many_values_is_refused_unparsed)
{
	in_little_memory(parse_both);
}

static void read_large(void)
{
	char dir[] = "/tmp/virgate-belief-XXXXXX";
	struct image_dir image;
	json_t *read;

	CHECK(mkdtemp(dir) != NULL);
	CHECK_INT(image_open(dir, &image), VG_OK);
	int fd = openat(image.fd, IMAGE_DESCRIPTION, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	int cut = ftruncate(fd, (off_t)1 << 40);
	enum vg_status status = image_read(&image, &read);
	unlinkat(image.fd, IMAGE_DESCRIPTION, 0);
	rmdir(dir);
	close(fd);
	image_close(&image);
	CHECK_INT(cut, 0);
	CHECK_INT(status, VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "is larger than the 128 MiB");
}

TEST(a_description_of_a_terabyte_is_refused_unread)
{
	in_little_memory(read_large);
}

// The reader refuses a chunk whose contents do not have the stated length, and writes nothing after the buffer's end.
TEST(an_invalid_chunk_is_refused)
{
	enum { LENGTH = 10 * CHUNK_PAGE + 7, GUARD = 64 };
	static unsigned char data[LENGTH + GUARD], out[LENGTH + 64], back[LENGTH + GUARD];

	for (int method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		struct codec *codec = codec_create((enum vg_compression)method, 0);
		memset(data, 0, sizeof data);
		for (size_t i = 0; i < LENGTH; i++)
			data[i] = i / CHUNK_PAGE % 2 ? (unsigned char)(i / 100) : 0;
		memcpy(back, data, LENGTH);
		size_t bytes = codec_pack(codec, back, LENGTH, out);
		memset(back, 0xaa, sizeof back);
		CHECK(codec_unpack(codec, out, bytes, back, LENGTH));
		CHECK(memcmp(back, data, LENGTH) == 0);
		for (int round = 0; round < 20000; round++) {
			size_t at = next_random() % bytes, length = next_random() % (bytes + 1);
			unsigned char old = out[at];
			out[at] ^= (unsigned char)(1 + next_random() % 255);
			codec_unpack(codec, out, round % 2 ? bytes : length, back, LENGTH);
			out[at] = old;
		}
		for (size_t i = 0; i < GUARD; i++)
			CHECK_INT(back[LENGTH + i], 0xaa);
		// Changes the bitmap of pages at the start of the chunk: it has a page after the end of the file, or no
		// page at all. Both must be refused.
		out[1] |= 1 << 3;
		CHECK(!codec_unpack(codec, out, bytes, back, LENGTH));
		memset(out, 0, 2);
		CHECK(!codec_unpack(codec, out, bytes, back, LENGTH));
		CHECK(!codec_unpack(codec, out, 2, back, LENGTH));
		codec_destroy(codec);
	}
}
