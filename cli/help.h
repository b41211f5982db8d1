// Help from the verb table.
#pragma once
#include <stdio.h>

#include "verb.h"

void help_overview(FILE *out);
void help_family(FILE *out, const struct family *family);
void help_verb(FILE *out, const struct verb *verb);
// Says that the words are no verb, and what was probably meant. The exit code of that.
int refuse_verb(const char *first, const char *second);
