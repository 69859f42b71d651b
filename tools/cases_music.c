/* Golden cases of scheme music_transformer (PARAMS.md section 4.3). */
#include "cases_relative.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const param_row param_rows[] = {
    CASE_RELATIVE_ROWS,
    {"variant", PARAM_TEXT, "music_transformer\nmusic_transformer_unmasked\n"},
    {"max_relative_position", PARAM_WHOLE, NULL},
    {"table_rows", PARAM_WHOLE, NULL},
    {"table_row", PARAM_TEXT, "j-i+M-1\n"},
    {"beyond_table", PARAM_TEXT, "zero\n"},
    {"future_rel_term", PARAM_TEXT, "zero\nmasked\ntable\n"},
    {"tables_per_head", PARAM_BOOL, NULL},
    {"value_term", PARAM_BOOL, NULL},
};

static const tensor_row tensor_rows[] = {
    {"in.rel_k", TENSOR_F32, true},
    {"in.rel_v", TENSOR_F32, false},
};

typedef struct music_case {
    relative_case base;
    ref_music music;
    uint32_t rows;
} music_case;

static int read_params(case_file *c, music_case *t)
{
    const char *variant = case_string(c->params, "variant");
    const char *future = case_string(c->params, "future_rel_term");

    if (variant == NULL)
        return case_fail(c, "params: wanted variant, got none");
    if (case_size(c, "max_relative_position", 0.0, 1.0, &t->music.most) != 0)
        return -1;
    t->music.two_sided = strcmp(variant, "music_transformer_unmasked") == 0;
    t->music.future = future != NULL && strcmp(future, "table") == 0;
    t->music.per_head = case_bool(c->params, "tables_per_head", false);
    t->rows = t->music.two_sided ? 2 * t->music.most - 1 : t->music.most;
    if (future != NULL && strcmp(future, "masked") == 0 && t->base.v != NULL && !t->base.causal)
        return case_fail(c, "params.future_rel_term: wanted causal with masked");
    return case_expect_number(c, "table_rows", t->rows);
}

static int run_reference(case_file *c, music_case *t)
{
    if (ref_music_terms(&t->music, t->base.head_dim, t->base.head_dim, &t->base.terms) != 0)
        return case_fail(c, "reference: parameters outside their domain");
    return case_relative_reference(c, &t->base);
}

static int run_device(case_file *c, music_case *t)
{
    rhumb_music_transformer music;
    const relative_device device = {.scheme = &music};

    rhumb_init_music_transformer(&music);
    music.max_relative_position = t->music.most;
    music.bidirectional = t->music.two_sided != 0;
    return case_relative_device(c, &t->base, &device);
}

int case_run_music(case_file *c)
{
    music_case t;
    int result;

    if (case_check_relative(c, param_rows, COUNT(param_rows), tensor_rows, COUNT(tensor_rows)) != 0)
        return -1;
    memset(&t, 0, sizeof t);
    result = case_read_relative(c, (double)NAN, &t.base);
    if (result == 0)
        result = read_params(c, &t);
    if (result == 0)
        result = case_read_row_tables(c, &t.base, t.rows, t.music.per_head != 0, &t.music.keys,
                                      &t.music.values);
    if (result == 0)
        result = run_reference(c, &t);
    if (result == 0 && c->device != NULL)
        result = run_device(c, &t);
    case_free_relative(&t.base);
    return result;
}
