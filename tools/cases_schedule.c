/* Schedules of golden cases (PARAMS.md sections 5.1 to 5.4), for the reference and for rhumb. */
#include "cases_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { LIST_SHORT, LIST_LONG, LIST_DIVISORS };

static const param_row schedule_rows[] = {
    {"mrope_section", PARAM_NUMBERS, NULL}, /* first: left out where it has no place */
    {"rope_type", PARAM_TEXT, "default\nlinear\ndynamic\nyarn\nllama3\nlongrope\nproportional\n"},
    {"rope_theta", PARAM_NUMBER, NULL},
    {"partial_rotary_factor", PARAM_NUMBER, NULL},
    {"factor", PARAM_NUMBER, NULL},
    {"original_max_position_embeddings", PARAM_NUMBER, NULL},
    {"beta_fast", PARAM_NUMBER, NULL},
    {"beta_slow", PARAM_NUMBER, NULL},
    {"truncate", PARAM_BOOL, NULL},
    {"mscale", PARAM_NUMBER, NULL},
    {"mscale_all_dim", PARAM_NUMBER, NULL},
    {"attention_factor", PARAM_NUMBER, NULL},
    {"low_freq_factor", PARAM_NUMBER, NULL},
    {"high_freq_factor", PARAM_NUMBER, NULL},
    {"short_factor", PARAM_NUMBERS, NULL},
    {"long_factor", PARAM_NUMBERS, NULL},
};

int case_check_schedule(case_file *c, bool sections)
{
    const cJSON *schedule = case_param(c->params, "rope_parameters");

    if (schedule == NULL)
        return 0;
    if (case_check_params(c, schedule, sections ? schedule_rows : schedule_rows + 1,
                          sections ? COUNT(schedule_rows) : COUNT(schedule_rows) - 1) != 0)
        return -1;
    if (case_string(schedule, "rope_type") == NULL)
        return case_fail(c, "params.rope_parameters: wanted rope_type, got none");
    return 0;
}

/* ------------------------------------------------------------------------------------------------
 * Values
 */
static int need_number(case_file *c, const cJSON *object, const char *what, const char *key,
                       double *value)
{
    if (case_param(object, key) == NULL)
        return case_fail(c, "params: wanted %s for %s, got none", key, what);
    *value = case_number(object, key, 0.0);
    return 0;
}

/* A length in tokens: `key` of either object, or the fallback. */
static int read_length(case_file *c, const cJSON *object, const char *what, const char *key,
                       const char *fallback, uint32_t *value)
{
    double number = case_number(object, key, 0.0);

    if (case_param(object, key) == NULL && fallback != NULL)
        number = case_number(c->params, fallback, 0.0);
    if (!(number >= 1.0 && number <= 4294967295.0) || floor(number) != number)
        return case_fail(c, "params: %s: wanted a whole number of 1 or more for %s, got %g", what,
                         key, number);
    *value = (uint32_t)number;
    return 0;
}

/* R/2 numbers of a JSON list into lists[at]. */
static int read_list(case_file *c, rope_case *r, int at, const cJSON *object, const char *key)
{
    const uint32_t n = r->rope.rotary_dim / 2;
    const cJSON *list = case_param(object, key), *item;
    const int count = cJSON_GetArraySize(list);
    uint32_t i = 0;

    if (list == NULL || (uint32_t)count != n)
        return case_fail(c, "params: wanted %u numbers for %s, got %d", n, key,
                         list == NULL ? 0 : count);
    r->lists[at] = malloc(n * sizeof *r->lists[at]);
    if (r->lists[at] == NULL)
        return case_fail(c, "no memory");
    cJSON_ArrayForEach(item, list) r->lists[at][i++] = item->valuedouble;
    return 0;
}

/* m of the reference by the case's rule; rhumb keeps its own. `attention_factor` says what both
 * must come to, and stands alone where no rule makes one. */
static int set_magnitude(case_file *c, rope_case *r, bool ruled, double magnitude)
{
    const double stated = case_number(c->params, "attention_factor", magnitude);

    if (ruled && !(fabs(stated - magnitude) <= 1e-6 * magnitude))
        return case_fail(c, "params.attention_factor: wanted %.9g by the schedule, got %.9g",
                         magnitude, stated);
    r->rope.magnitude = ruled ? magnitude : stated;
    if (!ruled) {
        r->device.magnitude = RHUMB_MAGNITUDE_GIVEN;
        r->device.attention_factor = stated;
    }
    return 0;
}

/* attention_factor inside rope_parameters overrides the rule. */
static int set_published_magnitude(case_file *c, const cJSON *s, rope_case *r, double by_rule)
{
    if (case_param(s, "attention_factor") == NULL)
        return set_magnitude(c, r, true, by_rule);
    r->device.magnitude = RHUMB_MAGNITUDE_GIVEN;
    r->device.attention_factor = case_number(s, "attention_factor", 1.0);
    return set_magnitude(c, r, true, r->device.attention_factor);
}

/* ------------------------------------------------------------------------------------------------
 * Published schedules: rope_parameters
 */
static int read_default(case_file *c, const cJSON *s, rope_case *r)
{
    (void)s;
    return set_magnitude(c, r, false, 1.0);
}

static int read_linear(case_file *c, const cJSON *s, rope_case *r)
{
    if (need_number(c, s, "linear", "factor", &r->rope.factor) != 0)
        return -1;
    r->device.scaling = RHUMB_ROPE_SCALING_LINEAR;
    r->device.factor = r->rope.factor;
    return set_magnitude(c, r, false, 1.0);
}

static int read_dynamic(case_file *c, const cJSON *s, rope_case *r)
{
    if (need_number(c, s, "dynamic", "factor", &r->rope.factor) != 0 ||
        read_length(c, c->params, "dynamic", "max_position_embeddings", NULL,
                    &r->rope.max_length) != 0)
        return -1;
    r->by_length = true;
    r->rope.schedule = REF_SCHEDULE_NTK_DYNAMIC;
    r->device.scaling = RHUMB_ROPE_SCALING_NTK_DYNAMIC;
    r->device.factor = r->rope.factor;
    r->device.max_length = r->rope.max_length;
    return set_magnitude(c, r, false, 1.0);
}

static double beta(const cJSON *s, const char *key, double absent)
{
    const double value = case_number(s, key, absent);

    return value != 0.0 ? value : absent;
}

static int read_yarn(case_file *c, const cJSON *s, rope_case *r)
{
    const double mscale = case_number(s, "mscale", 0.0), all = case_number(s, "mscale_all_dim", 0);
    ref_rope *rope = &r->rope;

    if (read_length(c, s, "yarn", "original_max_position_embeddings", "max_position_embeddings",
                    &rope->original_length) != 0)
        return -1;
    rope->factor = case_number(c->params, "max_position_embeddings", 0.0) / rope->original_length;
    rope->factor = case_number(s, "factor", rope->factor);
    if (!(rope->factor > 0.0))
        return case_fail(c, "params: wanted factor or max_position_embeddings for yarn, got none");
    rope->schedule = REF_SCHEDULE_YARN;
    rope->beta_fast = beta(s, "beta_fast", 32.0);
    rope->beta_slow = beta(s, "beta_slow", 1.0);
    rope->truncate = case_bool(s, "truncate", true);
    r->device.scaling = RHUMB_ROPE_SCALING_YARN;
    r->device.factor = rope->factor;
    r->device.original_length = rope->original_length;
    r->device.beta_fast = rope->beta_fast;
    r->device.beta_slow = rope->beta_slow;
    r->device.truncate = rope->truncate != 0;
    r->device.mscale = mscale;
    r->device.mscale_all_dim = all;
    return set_published_magnitude(c, s, r,
                                   mscale != 0.0 && all != 0.0
                                       ? ref_magnitude_mscale(rope->factor, mscale, all)
                                       : ref_magnitude_paper(rope->factor));
}

static int read_llama3(case_file *c, const cJSON *s, rope_case *r)
{
    ref_rope *rope = &r->rope;

    if (need_number(c, s, "llama3", "factor", &rope->factor) != 0 ||
        read_length(c, s, "llama3", "original_max_position_embeddings", "max_position_embeddings",
                    &rope->original_length) != 0)
        return -1;
    rope->schedule = REF_SCHEDULE_LLAMA3;
    rope->low_freq_factor = case_number(s, "low_freq_factor", 1.0);
    rope->high_freq_factor = case_number(s, "high_freq_factor", 4.0);
    r->device.scaling = RHUMB_ROPE_SCALING_LLAMA3;
    r->device.factor = rope->factor;
    r->device.original_length = rope->original_length;
    r->device.low_freq_factor = rope->low_freq_factor;
    r->device.high_freq_factor = rope->high_freq_factor;
    return set_magnitude(c, r, false, 1.0);
}

static int read_longrope(case_file *c, const cJSON *s, rope_case *r)
{
    const double length = case_number(c->params, "max_position_embeddings", 0.0);
    double factor;

    if (read_length(c, s, "longrope", "original_max_position_embeddings", "max_position_embeddings",
                    &r->rope.original_length) != 0 ||
        read_list(c, r, LIST_SHORT, s, "short_factor") != 0 ||
        read_list(c, r, LIST_LONG, s, "long_factor") != 0)
        return -1;
    r->by_length = true;
    r->rope.schedule = REF_SCHEDULE_LONGROPE;
    r->rope.short_factors = r->lists[LIST_SHORT];
    r->rope.long_factors = r->lists[LIST_LONG];
    r->device.scaling = RHUMB_ROPE_SCALING_LONGROPE;
    r->device.original_length = r->rope.original_length;
    r->device.short_factors = r->lists[LIST_SHORT];
    r->device.long_factors = r->lists[LIST_LONG];
    r->device.list_count = r->rope.rotary_dim / 2;
    /* rhumb makes s of max_length where it is given no factor. */
    r->device.factor = case_number(s, "factor", 1.0);
    if (case_param(s, "factor") == NULL && length > 0.0 &&
        read_length(c, c->params, "longrope", "max_position_embeddings", NULL,
                    &r->device.max_length) != 0)
        return -1;
    factor = case_number(s, "factor", length / r->rope.original_length);
    return set_published_magnitude(c, s, r,
                                   ref_magnitude_longrope(factor, r->rope.original_length));
}

static int read_proportional(case_file *c, const cJSON *s, rope_case *r)
{
    if (r->rope.rotary_dim != r->head_dim)
        return case_fail(c, "params.rotary_dim: wanted head_dim %u for proportional, got %u",
                         r->head_dim, r->rope.rotary_dim);
    r->rope.schedule = REF_SCHEDULE_PROPORTIONAL;
    r->rope.factor = case_number(s, "factor", 1.0);
    r->rope.partial_factor = case_number(s, "partial_rotary_factor", 1.0);
    r->device.scaling = RHUMB_ROPE_SCALING_PROPORTIONAL;
    r->device.factor = r->rope.factor;
    r->device.partial_factor = r->rope.partial_factor;
    return set_magnitude(c, r, false, 1.0);
}

static int read_published(case_file *c, const cJSON *s, rope_case *r)
{
    static const struct {
        const char *type;
        int (*read)(case_file *c, const cJSON *s, rope_case *r);
    } rows[] = {
        {"default", read_default},   {"linear", read_linear},
        {"dynamic", read_dynamic},   {"yarn", read_yarn},
        {"llama3", read_llama3},     {"longrope", read_longrope},
        {"proportional", read_proportional},
    };
    const char *type = case_string(s, "rope_type");
    size_t i;

    for (i = 0; strcmp(rows[i].type, type) != 0; i++)
        continue; /* case_check_schedule has seen to it that it is one of them */
    r->rope.base = case_number(s, "rope_theta", 10000.0);
    r->device.base = r->rope.base;
    return rows[i].read(c, s, r);
}

/* ------------------------------------------------------------------------------------------------
 * The YaRN repository's classes: `scaling`
 */
static int read_repository_dynamic(case_file *c, rope_case *r)
{
    const bool linear = cJSON_IsFalse(case_param(c->params, "ntk"));

    if (case_param(c->params, "ntk") == NULL)
        return case_fail(c, "params: wanted ntk for the dynamic class, got none");
    if (linear && strcmp(c->result->op, "frequencies") == 0)
        return 0; /* the positions are scaled, not the list */
    if (read_length(c, c->params, "the dynamic class", "max_position_embeddings", NULL,
                    &r->rope.max_length) != 0)
        return -1;
    r->by_length = true;
    r->rope.schedule = linear ? REF_SCHEDULE_LINEAR_DYNAMIC : REF_SCHEDULE_NTK_DYNAMIC;
    r->rope.factor = linear ? 1.0 : case_number(c->params, "ntk", 1.0);
    r->device.scaling =
        linear ? RHUMB_ROPE_SCALING_LINEAR_DYNAMIC : RHUMB_ROPE_SCALING_NTK_DYNAMIC;
    r->device.factor = r->rope.factor;
    r->device.max_length = r->rope.max_length;
    return 0;
}

static int read_repository(case_file *c, const char *name, rope_case *r)
{
    const cJSON *p = c->params;
    const bool yarn = strcmp(name, "LlamaYaRNScaledRotaryEmbedding") == 0;
    double extra = 1.0;

    if (strcmp(c->result->op, "attention") == 0 || strcmp(c->result->op, "scores") == 0)
        return case_fail(c, "params: wanted no scaling for op %s, whose scale is the softmax's",
                         c->result->op);
    if (strcmp(name, "LlamaNTKScaledRotaryEmbedding") == 0) {
        if (need_number(c, p, name, "alpha", &r->rope.factor) != 0)
            return -1;
        r->rope.schedule = REF_SCHEDULE_NTK;
        r->device.scaling = RHUMB_ROPE_SCALING_NTK;
    } else if (strcmp(name, "LlamaDynamicScaledRotaryEmbedding") == 0) {
        if (read_repository_dynamic(c, r) != 0)
            return -1;
    } else {
        if (need_number(c, p, name, "scale", &r->rope.factor) != 0 ||
            read_length(c, p, name, "original_max_position_embeddings", NULL,
                        &r->rope.original_length) != 0)
            return -1;
        r->rope.schedule = yarn ? REF_SCHEDULE_YARN : REF_SCHEDULE_NTK_BY_PARTS;
        r->device.scaling = yarn ? RHUMB_ROPE_SCALING_YARN : RHUMB_ROPE_SCALING_NTK_BY_PARTS;
        r->device.original_length = r->rope.original_length;
    }
    r->device.factor = r->rope.factor;
    if (!yarn)
        return set_magnitude(c, r, false, 1.0);
    extra = case_number(p, "attn_factor", 1.0);
    r->rope.extrapolation = case_number(p, "extrapolation_factor", 1.0);
    r->device.extrapolation = r->rope.extrapolation;
    r->device.attention_multiplier = extra;
    return set_magnitude(c, r, true, extra * ref_magnitude_paper(r->rope.factor));
}

/* ------------------------------------------------------------------------------------------------
 * ggml, and keys of x-transformers
 */
static int read_divisors(case_file *c, rope_case *r)
{
    const uint64_t n = r->rope.rotary_dim / 2;
    const tensor *list = tensor_list_find(&c->tensors, "in.freq_factors");

    if (list == NULL)
        return 0;
    if (case_check_shape(c, list, 1, &n) != 0)
        return -1;
    r->lists[LIST_DIVISORS] = tensor_doubles(list);
    if (r->lists[LIST_DIVISORS] == NULL)
        return case_fail(c, "no memory");
    r->rope.divisors = r->lists[LIST_DIVISORS];
    r->device.divisors = r->lists[LIST_DIVISORS];
    r->device.list_count = (uint32_t)n;
    return 0;
}

static int read_ggml(case_file *c, rope_case *r)
{
    const cJSON *p = c->params;
    const double extrapolation = case_number(p, "ext_factor", 0.0);
    const double attn_factor = case_number(p, "attn_factor", 1.0);
    const bool shift = case_string(p, "kind") != NULL;

    r->rope.base = case_number(p, "freq_base", 10000.0);
    r->rope.factor = 1.0 / case_number(p, "freq_scale", 1.0);
    r->device.base = r->rope.base;
    r->device.factor = r->rope.factor;
    r->device.scaling =
        r->rope.factor != 1.0 ? RHUMB_ROPE_SCALING_LINEAR : RHUMB_ROPE_SCALING_NONE;
    if (read_divisors(c, r) != 0)
        return -1;
    if (extrapolation != 0.0) {
        if (read_length(c, p, "ggml", "n_ctx_orig", NULL, &r->rope.original_length) != 0 ||
            need_number(c, p, "ext_factor", "beta_fast", &r->rope.beta_fast) != 0 ||
            need_number(c, p, "ext_factor", "beta_slow", &r->rope.beta_slow) != 0)
            return -1;
        r->rope.schedule = REF_SCHEDULE_YARN;
        r->rope.extrapolation = extrapolation;
        r->device.scaling = RHUMB_ROPE_SCALING_YARN;
        r->device.original_length = r->rope.original_length;
        r->device.beta_fast = r->rope.beta_fast;
        r->device.beta_slow = r->rope.beta_slow;
        r->device.extrapolation = extrapolation;
    }
    if (shift) /* a shifted key carries its magnitude already */
        r->rope.magnitude = case_number(p, "attention_factor_of_shift", 1.0);
    else if (extrapolation != 0.0)
        r->rope.magnitude = attn_factor * (1.0 + 0.1 * log(r->rope.factor));
    else
        r->rope.magnitude = attn_factor;
    if (!shift && extrapolation != 0.0) {
        r->device.magnitude = RHUMB_MAGNITUDE_PAPER;
        r->device.attention_multiplier = attn_factor;
    } else {
        r->device.magnitude = RHUMB_MAGNITUDE_GIVEN;
        r->device.attention_factor = r->rope.magnitude;
    }
    /* The device is told the model's own: that a shift does not apply it again is its business. */
    if (shift)
        r->device.attention_factor = case_number(p, "attention_factor_already_applied", 1.0);
    return 0;
}

/* x-transformers: a rescaled base, and an angle divided at use, which op frequencies does not
 * show. */
static int read_explicit(case_file *c, rope_case *r)
{
    const double rescale = case_number(c->params, "base_rescale_factor", 1.0);
    double division = case_number(c->params, "interpolation_factor", 1.0);
    const uint32_t n = r->rope.rotary_dim / 2;
    uint32_t i;

    if (strcmp(c->result->op, "frequencies") == 0)
        division = 1.0;
    r->rope.base = case_number(c->params, "base", 10000.0);
    r->device.base = r->rope.base;
    if (rescale != 1.0 && division != 1.0) { /* NTK, of divided frequencies */
        r->lists[LIST_DIVISORS] = malloc(n * sizeof *r->lists[LIST_DIVISORS]);
        if (r->lists[LIST_DIVISORS] == NULL)
            return case_fail(c, "no memory");
        for (i = 0; i < n; i++)
            r->lists[LIST_DIVISORS][i] = division;
        r->rope.divisors = r->lists[LIST_DIVISORS];
        r->device.divisors = r->lists[LIST_DIVISORS];
        r->device.list_count = n;
    }
    if (rescale != 1.0) {
        r->rope.schedule = REF_SCHEDULE_NTK;
        r->rope.factor = rescale;
        r->device.scaling = RHUMB_ROPE_SCALING_NTK;
    } else if (division != 1.0) {
        r->rope.factor = division;
        r->device.scaling = RHUMB_ROPE_SCALING_LINEAR;
    }
    r->device.factor = r->rope.factor;
    return set_magnitude(c, r, false, 1.0);
}

/* ------------------------------------------------------------------------------------------------
 * All of it
 */
static int check_ways(case_file *c)
{
    static const char *const ggml_keys[] = {"freq_base", "freq_scale", "ext_factor", "beta_fast",
                                            "beta_slow", "n_ctx_orig", "kind"};
    const cJSON *p = c->params;
    const bool ggml = case_string(p, "parametrisation") != NULL;
    const bool published = case_param(p, "rope_parameters") != NULL;
    const bool repository = case_string(p, "scaling") != NULL;
    const bool rescaled = case_number(p, "base_rescale_factor", 1.0) != 1.0 ||
                          case_number(p, "interpolation_factor", 1.0) != 1.0;
    size_t i;

    if (ggml + published + repository > 1 || (rescaled && (ggml || published || repository)))
        return case_fail(c, "params: wanted one schedule, got several");
    for (i = 0; !ggml && i < COUNT(ggml_keys); i++)
        if (case_param(p, ggml_keys[i]) != NULL)
            return case_fail(c, "params: wanted parametrisation ggml with %s, got none",
                             ggml_keys[i]);
    if (!ggml && tensor_list_find(&c->tensors, "in.freq_factors") != NULL)
        return case_fail(c, "params: wanted parametrisation ggml with in.freq_factors, got none");
    return 0;
}

int case_read_schedule(case_file *c, rope_case *r)
{
    const cJSON *p = c->params, *published = case_param(p, "rope_parameters");
    const char *repository = case_string(p, "scaling");
    int result;

    if (check_ways(c) != 0)
        return -1;
    if (case_string(p, "parametrisation") != NULL) {
        result = read_ggml(c, r);
    } else if (published != NULL) {
        result = read_published(c, published, r);
    } else if (repository != NULL) {
        r->rope.base = case_number(p, "base", 10000.0);
        r->device.base = r->rope.base;
        result = read_repository(c, repository, r);
    } else {
        result = read_explicit(c, r);
    }
    if (result == 0 && (!(r->rope.magnitude > 0.0) || isinf(r->rope.magnitude)))
        return case_fail(c, "params: wanted a magnitude above 0, got %g", r->rope.magnitude);
    return result;
}

void case_free_rope(rope_case *r)
{
    size_t i;

    for (i = 0; i < COUNT(r->lists); i++) {
        free(r->lists[i]);
        r->lists[i] = NULL;
    }
}

void case_set_length(rope_case *r, uint64_t length)
{
    r->rope.length = r->by_length ? length : 0;
}

uint64_t case_length_of(const int32_t *positions, uint64_t count)
{
    int64_t last = 0;
    uint64_t i;

    for (i = 0; i < count; i++)
        if (positions[i] > last)
            last = positions[i];
    return (uint64_t)last + 1;
}
