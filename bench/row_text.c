/* What rows are called, and which of them a pattern takes. */
#include "bench.h"
#include "command_line.h"

#include <fnmatch.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)

const char *bench_row_id(const bench_row *row, char *text, size_t size)
{
    snprintf(text, size, "%s/%s", row->group, row->name);
    return text;
}

const char *bench_dtype_name(rhumb_dtype dtype)
{
    return dtype == RHUMB_Q8_0 ? "q8_0" : command_dtype_name(dtype);
}

static const char *heads_text(const bench_shape *s, char *text, size_t size)
{
    if (s->heads == 0)
        text[0] = '\0';
    else if (s->kv_heads != 0 && s->kv_heads != s->heads)
        snprintf(text, size, "H %u/%u, ", s->heads, s->kv_heads);
    else
        snprintf(text, size, "H %u, ", s->heads);
    return text;
}

const char *bench_row_shape(const bench_row *row, char *text, size_t size)
{
    const bench_shape *s = &row->shape;
    char heads[32], windows[32] = "", block[32] = "";

    if (s->q_rows == 0) {
        if (s->bytes == 0)
            snprintf(text, size, "-");
        else
            snprintf(text, size, "%.4g MiB a stream", (double)s->bytes / (double)MIB);
        return text;
    }
    heads_text(s, heads, sizeof heads);
    if (s->windows > 1)
        snprintf(windows, sizeof windows, "%u x ", s->windows);
    if (s->block != 0)
        snprintf(block, sizeof block, " by %u", s->block);
    if (s->k_rows != 0)
        snprintf(text, size, "%s%sLq %u, Lk %u%s, D %u, %s", windows, heads, s->q_rows, s->k_rows,
                 block, s->head_dim, bench_dtype_name(s->dtype));
    else
        snprintf(text, size, "%s%sL %u%s, D %u, %s", windows, heads, s->q_rows, block, s->head_dim,
                 bench_dtype_name(s->dtype));
    return text;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *bench_row_long(const bench_row *row)
{
    static const char *const words[] = {"model", "unfused"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (begins(row->group, words[i]))
            return words[i];
    }
    return NULL;
}

static bool matches(const bench_row *row, const char *pattern)
{
    const char *word = bench_row_long(row);
    char id[128];

    if (word != NULL && (pattern == NULL || !begins(pattern, word)))
        return false;
    bench_row_id(row, id, sizeof id);
    return pattern == NULL || strstr(id, pattern) != NULL || fnmatch(pattern, id, 0) == 0;
}

/* Whether `row` has to come along with `other`. */
static bool belongs_to(const bench_row *row, const bench_row *other)
{
    return strcmp(other->group, row->group) == 0 &&
           (row->role != BENCH_OPERATION ||
            (other->against != NULL && strcmp(other->against, row->name) == 0));
}

bool bench_row_wanted(const bench_row *row, const char *pattern)
{
    if (matches(row, pattern))
        return true;
    for (uint32_t i = 0; i < bench_row_count; i++) {
        if (belongs_to(row, &bench_rows[i]) && matches(&bench_rows[i], pattern))
            return true;
    }
    return false;
}
