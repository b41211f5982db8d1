#include "exporter/views.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "exporter/api.h"
#include "exporter/gather.h"
#include "exporter/page.h"
#include "exporter/turns.h"

static const char json_type[] = "application/json", html_type[] = "text/html; charset=utf-8";

// The document that is being made. Its text is valid until the next one begins.
static struct making {
	FILE *out;
	char *text;
	size_t length;
} making;

static FILE *begin(void)
{
	free(making.text);
	making.text = NULL;
	return making.out = open_memstream(&making.text, &making.length);
}

static unsigned end(unsigned status, const char *type, struct document *ret_document)
{
	static const char none[] = "no memory for the answer\n";

	if (!making.out || fclose(making.out) != 0) {
		*ret_document = (struct document){"text/plain; charset=utf-8", none, sizeof none - 1};
		return 503;
	}
	*ret_document = (struct document){type, making.text, making.length};
	return status;
}

static unsigned refuse(unsigned status, const char *problem, struct document *ret_document)
{
	FILE *out = begin();

	if (out)
		api_write_problem(out, problem);
	return end(status, json_type, ret_document);
}

static const char *host_name(void)
{
	static char name[256];

	if (gethostname(name, sizeof name - 1) != 0)
		name[0] = '\0';
	return name;
}

unsigned views_page(const struct document_source *source, const struct document_request *request,
		    struct document *ret_document)
{
	const struct page page = {.gathered = gather(source->node, request->is_public),
				  .host = host_name(),
				  .is_public = request->is_public,
				  .has_token = source->has_token};
	FILE *out = begin();

	if (out)
		page_write(out, &page);
	return end(200, html_type, ret_document);
}

unsigned views_full(const struct document_source *source, const struct document_request *request,
		    struct document *ret_document)
{
	static const struct document refusal = {
		.type = "text/plain; charset=utf-8",
		.text = "this page needs the exporter's token, as the password of any user name\n"};
	static const struct document no_token = {
		.type = "text/plain; charset=utf-8",
		.text = "the exporter has no token: start it with --token-file FILE, see virgate-exporter(8)\n"};

	if (request->is_public) { // 401 makes a browser ask for a password, and without a token none is right
		*ret_document = source->has_token ? refusal : no_token;
		return source->has_token ? 401 : 403;
	}
	return views_page(source, request, ret_document);
}

unsigned views_overview(const struct document_source *source, const struct document_request *request,
			struct document *ret_document)
{
	const struct gathered *gathered = gather(source->node, request->is_public);

	if (*gathered->problem)
		return refuse(503, gathered->problem, ret_document);
	FILE *out = begin();
	if (out)
		api_write_overview(out, gathered, request->is_public);
	return end(200, json_type, ret_document);
}

unsigned views_history(const struct document_source *source, const struct document_request *request,
		       struct document *ret_document)
{
	bool is_found = true;
	unsigned figures;

	if (!api_read_figures(request->figures, &figures))
		return refuse(400,
			      "figures= needs names with commas between them: charged, physical, in_host, gpu_ns, "
			      "waited_ns, refusals",
			      ret_document);
	const struct gathered *gathered = gather(source->node, request->is_public);

	if (*gathered->problem)
		return refuse(503, gathered->problem, ret_document);
	FILE *out = begin();
	if (out)
		is_found = api_write_history(out, gathered->samples, request->vgpu, figures);
	unsigned status = end(200, json_type, ret_document);
	return is_found ? status
			: refuse(404, "this vGPU has no samples: /api/history without vgpu= has all series",
				 ret_document);
}

// Reads a number of the query into *number, which stays as it is if the text is missing. Returns false if the text is
// not a number.
static bool read_number(const char *text, uint64_t *number)
{
	char *last;

	if (!text)
		return true;
	errno = 0;
	*number = strtoull(text, &last, 10);
	return isdigit((unsigned char)*text) && !*last && !errno;
}

unsigned views_events(const struct document_source *source, const struct document_request *request,
		      struct document *ret_document)
{
	uint64_t after = 0, most = UINT64_MAX;

	if (!read_number(request->most, &most))
		return refuse(400, "most= needs a number of events", ret_document);
	if (!read_number(request->after, &after))
		return refuse(400, "after= needs the number of an event, such as the member next of an earlier answer",
			      ret_document);
	const struct gathered *gathered = gather(source->node, request->is_public);
	if (*gathered->problem || !gathered->events)
		return refuse(503, gathered->problem, ret_document);
	FILE *out = begin();
	if (out)
		api_write_events(out, gathered->events, after, most);
	return end(200, json_type, ret_document);
}

unsigned views_turns(const struct document_source *source, const struct document_request *request,
		     struct document *ret_document)
{
	uint64_t after = 0;

	if (!read_number(request->after, &after))
		return refuse(400, "after= needs the member next of an earlier answer", ret_document);
	const struct turns *turns = turns_follow(source->node);
	if (*turns->problem)
		return refuse(503, turns->problem, ret_document);
	FILE *out = begin();
	if (out)
		api_write_turns(out, turns, after, request->is_public);
	return end(200, json_type, ret_document);
}
