// Tests how the plugin reads options, its arguments, the list of GPUs, and its records of jobs. A stand-in replaces
// Slurm's library.
#include "test.h"

#include <errno.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "job.h"
#include "refusal.h"
#include "request.h"
#include "settings.h"

static struct {
	int error;
	job_info_t job;
	char comment[256];
} controller;

int slurm_load_job(job_info_msg_t **ret_records, uint32_t job, uint16_t flags)
{
	if (controller.error) {
		errno = controller.error;
		return SLURM_ERROR;
	}
	*ret_records = calloc(1, sizeof **ret_records);
	(*ret_records)->record_count = 1;
	(*ret_records)->job_array = &controller.job;
	return SLURM_SUCCESS;
}

void slurm_free_job_info_msg(job_info_msg_t *records)
{
	free(records);
}

hostlist_t slurm_hostlist_create(const char *hosts)
{
	return (hostlist_t)strdup(hosts);
}

int slurm_hostlist_find(hostlist_t hosts, const char *name)
{
	const char *text = (const char *)hosts, *found = strstr(text, name);
	int position = 0;

	for (const char *at = text; found && at < found; at++)
		position += *at == ',';
	return found ? position : -1;
}

void slurm_hostlist_destroy(hostlist_t hosts)
{
	free(hosts);
}

void slurm_init_job_desc_msg(job_desc_msg_t *change)
{
	memset(change, 0, sizeof *change);
}

int slurm_update_job(job_desc_msg_t *change)
{
	snprintf(controller.comment, sizeof controller.comment, "%s", change->comment);
	controller.job.comment = controller.comment;
	return SLURM_SUCCESS;
}

void slurm_error(const char *format, ...);
void slurm_error(const char *format, ...)
{
	(void)format;
}

static void check_size(const char *text, uint64_t bytes)
{
	uint64_t got = 0;

	if (request_parse_size(text, &got) != (bytes != 0) || got != bytes)
		FAIL("\"%s\": %llu", text, (unsigned long long)got);
}

TEST(sizes)
{
	check_size("1G", 1ull << 30);
	check_size("1.5g", 3ull << 29);
	check_size("512MiB", 512ull << 20);
	check_size("64 kb", 64 << 10);
	check_size("4096", 4096);
	for (const char *const *text = (const char *const[]){"", "G", "-1G", "0", "0.1", "1X", "1GG", "1e9", "0x10",
							     "inf", "nan", "99999999P", " 1G", "1.5.2G", NULL};
	     *text; text++)
		check_size(*text, 0);
}

TEST(shares_and_sizes_as_text)
{
	char text[256], size[REQUEST_SIZE_TEXT];
	struct request request = {0};

	CHECK(!request_add(&request, REQUEST_SHARE, "100", text, sizeof text) && request.share == 100);
	for (const char *const *wrong = (const char *const[]){"0", "101", "-1", "1x", "", "1000", "1.5", NULL}; *wrong;
	     wrong++)
		CHECK(request_add(&request, REQUEST_SHARE, *wrong, text, sizeof text));
	CHECK(request_add(&request, REQUEST_MEMORY, NULL, text, sizeof text));
	CHECK(strcmp(request_format_size(3ull << 29, size), "1.5 GiB") == 0);
	CHECK(strcmp(request_format_size(100, size), "100 B") == 0);
}

TEST(names_of_vgpus)
{
	char name[JOB_NAME];
	uint32_t job = 0;

	job_vgpu_name(17, name);
	CHECK(strcmp(name, "slurm-17") == 0 && job_of_vgpu(name, &job) && job == 17);
	for (const char *const *other = (const char *const[]){"slurm-", "slurm-0", "slurm-017", "slurm-1x", "slurm-+1",
							      "slurm-99999999999", "train", "slurm", NULL};
	     *other; other++)
		if (job_of_vgpu(*other, &job))
			FAIL("%s", *other);
}

TEST(gpus_by_device_minor)
{
	char place[] = "/tmp/test-slurm-XXXXXX", gpu[JOB_GPU], command[400];

	CHECK(mkdtemp(place));
	CHECK(job_find_gpu("3", "/nonexistent", gpu) == 0 && strcmp(gpu, "3") == 0);
	CHECK(job_find_gpu(NULL, place, gpu) == 1 && job_find_gpu("", place, gpu) == 1);
	CHECK(job_find_gpu("0,1", place, gpu) == -E2BIG && job_find_gpu("0-1", place, gpu) == -E2BIG);
	CHECK(job_find_gpu("x", place, gpu) == -EINVAL && job_find_gpu("-1", place, gpu) == -EINVAL);
	snprintf(command, sizeof command,
		 "cd %s && mkdir a b && printf 'Model: \\t X\\nGPU UUID: \\t GPU-11\\nDevice Minor: \\t 1\\n' "
		 ">a/information && printf 'GPU UUID: \\t GPU-00\\nDevice Minor: \\t 0\\n' >b/information",
		 place);
	CHECK(system(command) == 0);
	CHECK(job_find_gpu("1", place, gpu) == 0 && strcmp(gpu, "GPU-11") == 0);
	CHECK(job_find_gpu("0", place, gpu) == 0 && strcmp(gpu, "GPU-00") == 0);
	CHECK(job_find_gpu("2", place, gpu) == -ENODEV);
	snprintf(command, sizeof command, "rm -r %s", place);
	CHECK(system(command) == 0);
}

TEST(shards_of_a_job)
{
	char *details[] = {"gpu:1(IDX:0)", "shard:8(IDX:0)"};
	uint64_t shards = 1;

	CHECK(job_parse_shards("shard:8(IDX:0)") == 8 && job_parse_shards("gpu:1(IDX:0),shard:h100:3(IDX:1)") == 3);
	CHECK(job_parse_shards("gpu:2(IDX:0-1)") == 0 && job_parse_shards(NULL) == 0 &&
	      job_parse_shards("shard:") == 0);
	controller.job = (job_info_t){.job_id = 5, .nodes = "n1,n2", .gres_detail_cnt = 2, .gres_detail_str = details};
	CHECK(job_count_shards(5, "n2", &shards) == 0 && shards == 8);
	CHECK(job_count_shards(5, "n1", &shards) == 0 && shards == 0);
	CHECK(job_count_shards(5, "n3", &shards) == 0 && shards == 0);
	controller.error = EAGAIN;
	CHECK(job_count_shards(5, "n2", &shards) == -EIO);
	controller.error = 0;
}

TEST(life_of_a_job)
{
	controller.job = (job_info_t){.job_id = 5, .nodes = "n1", .job_state = JOB_RUNNING};
	CHECK(job_ask_life(5, "n1") == JOB_MAY_USE_NODE && job_ask_life(5, "n2") == JOB_IS_OVER);
	CHECK(job_ask_life(6, "n1") == JOB_IS_OVER);
	controller.job.job_state = JOB_PENDING;
	CHECK(job_ask_life(5, "n1") == JOB_IS_OVER);
	controller.job.job_state = JOB_FAILED | JOB_COMPLETING;
	CHECK(job_ask_life(5, "n1") == JOB_MAY_USE_NODE);
	controller.job.job_state = JOB_NODE_FAIL;
	CHECK(job_ask_life(5, "n1") == JOB_IS_OVER);
	controller.error = ESLURM_INVALID_JOB_ID;
	CHECK(job_ask_life(5, "n1") == JOB_IS_OVER);
	controller.error = SLURM_COMMUNICATIONS_CONNECTION_ERROR;
	CHECK(job_ask_life(5, "n1") == JOB_UNKNOWN);
	controller.error = 0;
}

TEST(comment_keeps_what_the_user_wrote)
{
	controller.job = (job_info_t){.job_id = 5};
	CHECK(job_append_comment(5, "virgate: a") == 0 && strcmp(controller.comment, "virgate: a") == 0);
	CHECK(job_append_comment(5, "virgate: b") == 0 && strcmp(controller.comment, "virgate: b") == 0);
	snprintf(controller.comment, sizeof controller.comment, "mine");
	CHECK(job_append_comment(5, "virgate: c") == 0 && strcmp(controller.comment, "mine; virgate: c") == 0);
	CHECK(job_append_comment(5, "virgate: d") == 0 && strcmp(controller.comment, "mine; virgate: d") == 0);
}

TEST(arguments_of_the_plugin)
{
	struct settings settings = {0};
	char *good[] = {"runtime_dir=/a", "simulate=devices=2", "shard_memory=1G", "gres=optional", "comment=no"};

	CHECK(settings_read(5, good, &settings) == 0);
	CHECK(strcmp(settings.runtime_dir, "/a") == 0 && strcmp(settings.simulate, "devices=2") == 0);
	CHECK(settings.shard_memory == 1ull << 30 && settings.gres_is_optional && !settings.comment_is_written);
	CHECK(settings_read(0, NULL, &settings) == 0 && settings.comment_is_written && !settings.gres_is_optional);
	CHECK(strcmp(settings.state_dir, "/run/virgate-slurm") == 0);
	for (char **wrong =
		     (char *[]){"runtime_dir=a", "shard_memory=x", "gres=yes", "comment=1", "other=1", "gres", NULL};
	     *wrong; wrong++)
		if (settings_read(1, wrong, &settings) != -EINVAL)
			FAIL("%s", *wrong);
}

TEST(refusals)
{
	char place[] = "/tmp/test-slurm-XXXXXX", text[64];

	CHECK(mkdtemp(place));
	CHECK(!refusal_read(place, 7, text, sizeof text));
	CHECK(refusal_write(place, 7, "no room") == 0 && refusal_write(place, 7, "no room at all") == 0);
	CHECK(refusal_read(place, 7, text, sizeof text) && strcmp(text, "no room at all") == 0);
	refusal_remove(place, 7);
	CHECK(!refusal_read(place, 7, text, sizeof text) && rmdir(place) == 0);
}
