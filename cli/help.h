// Prints help, which is generated from the verb table. One thread.
#pragma once
#include <stdio.h>

#include "verb.h"

void help_overview(FILE *out);
void help_family(FILE *out, const struct family *family);
void help_verb(FILE *out, const struct verb *verb);
// Reports an unknown verb, and suggests the nearest one. Returns the exit code.
int refuse_verb(const char *first, const char *second);
