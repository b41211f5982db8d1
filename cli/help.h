// Help from the verb table.
#pragma once
#include <stdio.h>

#include "verb.h"

void help_overview(FILE *out);
void help_verb(FILE *out, const struct verb *verb);
