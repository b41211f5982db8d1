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
};

struct document_source {
	struct vg_node *node;
	bool lists_ephemeral;
};

// Returns 200 and the document, 404, or 503 with a document that says why.
unsigned document_find(const struct document_source *source, const char *path, bool is_public,
		       struct document *ret_document);
// Counts an answer with this status, for the exporter's own metrics.
void document_count(unsigned status);
