/* What the two files of scheme rope share. */
#ifndef RHUMB_TOOLS_CASES_ROPE_H
#define RHUMB_TOOLS_CASES_ROPE_H

#include "cases_internal.h"

#include "reference.h"

/* What the parameters say, checked. */
typedef struct rope_case {
    uint32_t head_dim;
    ref_rope rope;
} rope_case;

void case_to_rhumb(const rope_case *r, rhumb_rope *rope);

int case_run_rope_attention(case_file *c, const rope_case *r);

#endif
