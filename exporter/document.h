// Makes the documents that the exporter serves, by path. Each document is kept for a short time, so that many requests
// cost the daemon as much as a few. Used by the server's thread only.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include <virgate/vgpu.h>

struct document {
	const char *type; // the value of Content-Type
	const char *text; // valid until the next call
	size_t length;
	bool is_static; // the text is valid for ever
	bool is_gzip;	// the text is compressed
};

struct document_source {
	struct vg_node *node;
	bool lists_ephemeral;
	bool has_token; // readers with the exporter's token see more than others
};

struct document_request {
	const char *path;			   // without the query
	const char *vgpu, *figures, *after, *most; // parameters of the query; NULL: missing
	bool is_public;				   // the document may show only what `virgate ps` shows to other users
	bool accepts_gzip;
};

// Finds or makes the document for a request. Returns 200, or another status with a document that says why.
unsigned document_find(const struct document_source *source, const struct document_request *request,
		       struct document *ret_document);
// Counts an answer with this status, for the exporter's own metrics.
void document_count(unsigned status);
