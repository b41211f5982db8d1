// Makes the documents of the page: the page itself and its figures as JSON. Used by the server's thread only.
#pragma once
#include "exporter/document.h"

unsigned views_page(const struct document_source *source, const struct document_request *request,
		    struct document *ret_document);
// The page for readers with the token: a browser asks its user for it.
unsigned views_full(const struct document_source *source, const struct document_request *request,
		    struct document *ret_document);
unsigned views_overview(const struct document_source *source, const struct document_request *request,
			struct document *ret_document);
unsigned views_history(const struct document_source *source, const struct document_request *request,
		       struct document *ret_document);
unsigned views_events(const struct document_source *source, const struct document_request *request,
		      struct document *ret_document);
unsigned views_turns(const struct document_source *source, const struct document_request *request,
		     struct document *ret_document);
