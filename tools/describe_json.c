/* A report in the key names of the NAME.expected.json files. */
#include "describe_put.h"

#include <rhumb/rhumb_schemes.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define EDGE 4u /* frequencies shown at each end */
#define TURN 6.283185307179586476925286766559

/* --- frequencies --- */

typedef struct frequency_list {
    double *f;
    uint32_t count;
    double magnitude;
} frequency_list;

/* 0 with the reason in the report's message. */
static int read_frequencies(describe_report *report, const void *rotary, uint32_t head_dim,
                            uint32_t length, frequency_list *list)
{
    uint32_t capacity = head_dim / 2 + 1;

    list->f = malloc(capacity * sizeof *list->f);
    if (list->f == NULL)
        return 0;
    if (rhumb_rotary_frequencies(rotary, head_dim, length, list->f, capacity, &list->count,
                                 &list->magnitude) == RHUMB_OK)
        return 1;
    (void)snprintf(report->message, sizeof report->message, "%s", rhumb_last_message(NULL));
    free(list->f);
    list->f = NULL;
    return 0;
}

/* PREFIX_first and PREFIX_last. */
static int put_edges(cJSON *object, const char *prefix, const double *f, uint32_t count)
{
    uint32_t edge = count < EDGE ? count : EDGE;
    char name[32];

    (void)snprintf(name, sizeof name, "%s_first", prefix);
    if (!describe_put_list(object, name, f, edge))
        return 0;
    (void)snprintf(name, sizeof name, "%s_last", prefix);
    return describe_put_list(object, name, f + count - edge, edge);
}

static int put_spectrum(cJSON *object, const double *f, uint32_t count)
{
    double sum = 0.0;
    uint32_t i;

    for (i = 0; i < count; i++)
        sum += f[i];
    return put_edges(object, "inv_freq", f, count) &&
           describe_put_number(object, "inv_freq_sum", sum);
}

/* --- schedules of one axis --- */

static const rhumb_rope *rope_of(const rhumb_layer_kind *kind)
{
    const rhumb_header *header = kind->rotary;

    if (header == NULL)
        return NULL;
    if (header->type == RHUMB_TYPE_ROPE)
        return kind->rotary;
    if (header->type == RHUMB_TYPE_MROPE)
        return ((const rhumb_mrope *)kind->rotary)->rope;
    return NULL;
}

/* Frequencies at a length, in an object of their own. */
static int put_at_length(cJSON *object, const char *name, describe_report *report,
                         const rhumb_layer_kind *kind, uint32_t length)
{
    cJSON *part = cJSON_AddObjectToObject(object, name);
    frequency_list list;
    int ok;

    if (part == NULL || !read_frequencies(report, rope_of(kind), kind->head_dim, length, &list))
        return 0;
    ok = put_spectrum(part, list.f, list.count);
    free(list.f);
    return ok;
}

static int put_turning(cJSON *object, const frequency_list *list)
{
    uint32_t turning = 0;
    uint32_t i;

    for (i = 0; i < list->count; i++)
        turning += list->f[i] != 0.0;
    return describe_put_number(object, "nonzero_frequencies", turning);
}

static int put_frequencies(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    const rhumb_rope *rope = rope_of(kind);
    int longrope = rope->scaling == RHUMB_ROPE_SCALING_LONGROPE;
    frequency_list list;
    int ok;

    if (!read_frequencies(report, rope, kind->head_dim, 0, &list))
        return 0;
    ok = describe_put_number(object, "attention_factor", list.magnitude) &&
         describe_put_number(object, "inv_freq_count", list.count);
    if (rope->scaling == RHUMB_ROPE_SCALING_PROPORTIONAL)
        ok = ok && put_turning(object, &list);
    if (longrope)
        ok = ok && put_at_length(object, "short", report, kind, 0) &&
             put_at_length(object, "long", report, kind, rope->original_length + 1) &&
             describe_put_number(object, "switch_length", rope->original_length);
    else
        ok = ok && put_spectrum(object, list.f, list.count);
    free(list.f);
    return ok;
}

/* The scaling's own values: those that the trace has rows of. */
static int put_scaling(cJSON *object, const describe_report *report, const rhumb_layer_kind *kind)
{
    static const char *const fields[] = {
        "factor",
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "truncate",
        "mscale",
        "mscale_all_dim",
        "attn_factor",
        "low_freq_factor",
        "extrapolation_factor",
        "alpha",
        "high_freq_factor",
        "partial_rotary_factor",
    };
    int dynamic = rope_of(kind)->scaling == RHUMB_ROPE_SCALING_NTK_DYNAMIC;
    size_t i;

    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!describe_put_row(object, report, kind->name, fields[i]))
            return 0;
    }
    return !dynamic || describe_put_row(object, report, kind->name, "max_position_embeddings");
}

/* What differs between layer types of a model that has several schedules. */
static int put_schedule(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    const rhumb_rope *rope = rope_of(kind);
    const char *type = describe_value(report, kind->name, "rope_type");

    return describe_put_text(object, "rope_type", type != NULL ? type : "?") &&
           describe_put_text(object, "layout",
                             rope->pairing == RHUMB_PAIRING_HALF ? "half" : "interleaved") &&
           describe_put_number(object, "head_dim", kind->head_dim) &&
           describe_put_number(object, "rotary_dim", rope->rotary_dim) &&
           describe_put_number(object, "rotary_offset", rope->rotary_offset) &&
           describe_put_number(object, "rope_theta", rope->base) &&
           put_frequencies(object, report, kind) && put_scaling(object, report, kind);
}

static int put_sections(cJSON *object, const rhumb_mrope *mrope)
{
    static const char *const axes[] = {"t", "h", "w"};
    const double sections[3] = {mrope->sections[0], mrope->sections[1], mrope->sections[2]};

    return describe_put_list(object, "mrope_section", sections, 3) &&
           describe_put_bool(object, "mrope_interleaved",
                             mrope->order == RHUMB_MROPE_INTERLEAVED) &&
           describe_put_names(object, "axes", axes, 3);
}

/* --- schedules of rows and columns --- */

static int put_plane_frequencies(cJSON *object, describe_report *report,
                                 const rhumb_layer_kind *kind, const rhumb_rope2d *given)
{
    rhumb_rope2d plane = *given;
    frequency_list list;
    uint32_t half;
    uint32_t i;
    int ok;

    plane.scale[0] = plane.scale[1] = 1.0;
    plane.offset[0] = plane.offset[1] = 0.0;
    if (!read_frequencies(report, &plane, kind->head_dim, 0, &list))
        return 0;
    half = list.count / 2;
    for (i = 0; i < list.count && plane.frequency == RHUMB_ROPE2D_PERIODS; i++)
        list.f[i] /= TURN;
    if (plane.frequency == RHUMB_ROPE2D_ALTERNATING)
        ok = put_edges(object, "inv_freq_h", list.f, half) &&
             put_edges(object, "inv_freq_w", list.f + half, half);
    else
        ok = describe_put_number(object, "freqs_per_axis", half) &&
             put_edges(object, "inv_freq", list.f, half);
    free(list.f);
    return ok;
}

static int put_plane(cJSON *object, describe_report *report, const rhumb_layer_kind *kind)
{
    static const char *const axes[] = {"h", "w"};
    static const char *const fields[] = {"patch_size", "spatial_merge_size", "num_prefix_tokens",
                                         "max_patches_per_side"};
    const rhumb_rope2d *plane = kind->rotary;
    const char *variant = describe_value(report, kind->name, "variant");
    int periods = plane->frequency == RHUMB_ROPE2D_PERIODS;
    size_t i;

    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!describe_put_row(object, report, kind->name, fields[i]))
            return 0;
    }
    return describe_put_text(object, "scheme", "rope2d") &&
           describe_put_text(object, "variant", variant != NULL ? variant : "?") &&
           describe_put_text(object, "layout", "half") &&
           describe_put_number(object, "head_dim", kind->head_dim) &&
           describe_put_number(object, "heads", kind->heads) &&
           describe_put_number(object, periods ? "temperature" : "rope_theta", plane->base) &&
           describe_put_names(object, "axes", axes, 2) &&
           put_plane_frequencies(object, report, kind, plane);
}

static int is_plane(const rhumb_layer_kind *kind)
{
    const rhumb_header *header = kind->rotary;

    return header != NULL && header->type == RHUMB_TYPE_ROPE2D;
}

/* --- all kinds --- */

/* Kinds with a schedule of their own; *first is the first. */
static uint32_t count_schedules(const describe_report *report, const rhumb_layer_kind **first)
{
    const void *last = NULL;
    uint32_t count = 0;
    uint32_t i;

    *first = NULL;
    for (i = 0; i < report->kind_count; i++) {
        const rhumb_layer_kind *kind = &report->kinds[i];
        if (rope_of(kind) == NULL || kind->rotary == last)
            continue;
        if (*first == NULL)
            *first = kind;
        last = kind->rotary;
        count++;
    }
    return count;
}

static int put_schedules(cJSON *object, describe_report *report)
{
    cJSON *types = cJSON_AddObjectToObject(object, "layer_types");
    uint32_t i;

    for (i = 0; types != NULL && i < report->kind_count; i++) {
        const rhumb_layer_kind *kind = &report->kinds[i];
        cJSON *type = rope_of(kind) != NULL ? cJSON_AddObjectToObject(types, kind->name) : NULL;
        if (rope_of(kind) != NULL && (type == NULL || !put_schedule(type, report, kind)))
            return 0;
    }
    return types != NULL;
}

int describe_put_pattern(cJSON *object, const describe_report *report)
{
    uint32_t count = report->kinds[0].layer_count;
    cJSON *list;
    uint32_t i;
    uint32_t k;

    if (report->kind_count < 2 || count == 0 || count == RHUMB_MAX_LAYERS)
        return 1;
    list = cJSON_AddArrayToObject(object, "layer_pattern");
    for (i = 0; list != NULL && i < count; i++) {
        const char *name = "none";
        for (k = 0; k < report->kind_count; k++) {
            if (rhumb_layer_is_of_kind(&report->kinds[k], i))
                name = report->kinds[k].name;
        }
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(name)))
            return 0;
    }
    return list != NULL;
}

/* Where kinds differ in rotary alone: "(i+1) % 4 == 0", or the layers. */
static int put_no_rope(cJSON *object, const describe_report *report)
{
    const rhumb_layer_kind *turns = NULL;
    const rhumb_layer_kind *rests = NULL;
    char rule[96];
    uint32_t period = 0;
    uint32_t i;

    for (i = 0; i < report->kind_count; i++) {
        if (report->kinds[i].rotary == NULL)
            rests = &report->kinds[i];
        else if (!is_plane(&report->kinds[i]))
            turns = &report->kinds[i];
    }
    if (turns == NULL || rests == NULL || turns->window_left != rests->window_left ||
        turns->chunk != rests->chunk)
        return 1;
    while (period < rests->layer_count && !rhumb_layer_is_of_kind(rests, period))
        period++;
    period++;
    for (i = 0; i < rests->layer_count; i++) {
        if (rhumb_layer_is_of_kind(rests, i) != ((i + 1) % period == 0))
            break;
    }
    if (i == rests->layer_count)
        (void)snprintf(rule, sizeof rule, "layer i (0-based) has no rotary when (i+1) %% %u == 0",
                       period);
    else
        (void)snprintf(rule, sizeof rule, "layers (0-based) without rotary: %s",
                       describe_value(report, rests->name, "layers"));
    return describe_put_text(object, "no_rope_layer_rule", rule);
}

/* The first window; where heads differ in size it belongs to some of them: see the rows. */
static int put_window(cJSON *object, const describe_report *report, const rhumb_layer_kind *first)
{
    const char *local = NULL;
    uint32_t i;

    for (i = 0; i < report->kind_count; i++) {
        const rhumb_layer_kind *kind = &report->kinds[i];
        if (kind->window_left == RHUMB_NO_WINDOW)
            continue;
        if (kind->head_dim != first->head_dim || report->kinds[0].head_dim != first->head_dim)
            return 1;
        local = describe_value(report, kind->name, "local_attention");
        if (local != NULL)
            return describe_put_row(object, report, kind->name, "local_attention");
        return describe_put_number(object, "sliding_window", kind->window_left);
    }
    return 1;
}

static int put_shared(cJSON *object, const describe_report *report, const rhumb_layer_kind *first,
                      uint32_t schedules)
{
    static const char *const fields[] = {"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"};
    size_t i;

    for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!describe_put_row(object, report, first->name, fields[i]))
            return 0;
    }
    return (first->heads == 0 || (describe_put_number(object, "heads", first->heads) &&
                                  describe_put_number(object, "kv_heads", first->kv_heads))) &&
           (schedules > 1 || describe_put_number(object, "softmax_scale", first->scale)) &&
           (first->causal || describe_put_bool(object, "causal", 0)) &&
           put_window(object, report, first) && put_no_rope(object, report) &&
           describe_put_pattern(object, report);
}

static int put_text_part(cJSON *object, describe_report *report, const rhumb_layer_kind *first,
                         uint32_t schedules)
{
    const rhumb_header *header = first->rotary;
    int several = header->type == RHUMB_TYPE_MROPE;

    return describe_put_text(object, "scheme", several ? "mrope" : "rope") &&
           (schedules > 1 ? put_schedules(object, report) : put_schedule(object, report, first)) &&
           (!several || put_sections(object, first->rotary)) &&
           put_shared(object, report, first, schedules);
}

/* The tower alone, or as an object beside the text part. */
static int put_vision(cJSON *object, describe_report *report, int alone)
{
    uint32_t i;

    for (i = 0; i < report->kind_count; i++) {
        const rhumb_layer_kind *kind = &report->kinds[i];
        cJSON *tower = object;
        if (!is_plane(kind))
            continue;
        if (!alone)
            tower = cJSON_AddObjectToObject(object, "vision");
        return tower != NULL && put_plane(tower, report, kind);
    }
    return !alone || describe_put_text(object, "scheme", "none");
}

static int put_model(cJSON *object, describe_report *report)
{
    const rhumb_layer_kind *first;
    uint32_t schedules = count_schedules(report, &first);

    if (describe_is_positions(&report->kinds[0]))
        return describe_put_positions(object, report);
    return (first == NULL || put_text_part(object, report, first, schedules)) &&
           put_vision(object, report, first == NULL);
}

static cJSON *report_object(describe_report *report)
{
    cJSON *object = cJSON_CreateObject();

    (void)snprintf(report->message, sizeof report->message, "no memory for the report");
    if (object != NULL && put_model(object, report)) {
        report->message[0] = '\0';
        return object;
    }
    cJSON_Delete(object);
    return NULL;
}

/* --- each kind on its own --- */

/* A row's value; null: no such row, or none. */
static int put_value(cJSON *object, const describe_report *report, const char *kind,
                     const char *field)
{
    const char *value = describe_value(report, kind, field);

    if (value == NULL || strcmp(value, "none") == 0 || strcmp(value, "not known") == 0)
        return cJSON_AddNullToObject(object, field) != NULL;
    return describe_put_value(object, field, value);
}

static int differs(const describe_report *report, const char *field)
{
    const char *first = describe_value(report, report->kinds[0].name, field);
    uint32_t i;

    for (i = 1; i < report->kind_count; i++) {
        const char *other = describe_value(report, report->kinds[i].name, field);
        if ((first == NULL) != (other == NULL) || (first != NULL && strcmp(first, other) != 0))
            return 1;
    }
    return 0;
}

/* Which layers is layer_pattern's, and the warnings go to stderr. */
static int put_differences(cJSON *object, const describe_report *report, const char *kind)
{
    uint32_t i;

    for (i = 0; i < report->row_count; i++) {
        const char *field = report->rows[i].field;
        if (strcmp(field, "layers") == 0 || strcmp(field, "warning") == 0 ||
            cJSON_HasObjectItem(object, field) || !differs(report, field))
            continue;
        if (!put_value(object, report, kind, field))
            return 0;
    }
    return 1;
}

static int put_optional(cJSON *object, const char *name, int present, double value)
{
    return present ? describe_put_number(object, name, value)
                   : cJSON_AddNullToObject(object, name) != NULL;
}

static int put_kind(cJSON *object, const describe_report *report, const rhumb_layer_kind *kind)
{
    const int scaled = describe_value(report, kind->name, "softmax_scale") != NULL;

    return describe_put_text(object, "name", kind->name) &&
           describe_put_bool(object, "causal", kind->causal != 0) &&
           put_optional(object, "sliding_window", kind->window_left != RHUMB_NO_WINDOW,
                        kind->window_left) &&
           (kind->window_right == RHUMB_NO_WINDOW ||
            describe_put_number(object, "window_right", kind->window_right)) &&
           put_optional(object, "attn_logit_softcapping", isfinite(kind->softcap) != 0,
                        kind->softcap) &&
           put_optional(object, "softmax_scale", scaled, kind->scale) &&
           put_optional(object, "heads", kind->heads != 0, kind->heads) &&
           put_optional(object, "kv_heads", kind->kv_heads != 0, kind->kv_heads) &&
           describe_put_number(object, "head_dim", kind->head_dim) &&
           (!kind->sinks || describe_put_bool(object, "sinks", 1)) &&
           put_differences(object, report, kind->name);
}

static int put_kinds(cJSON *object, const describe_report *report)
{
    cJSON *list = cJSON_AddArrayToObject(object, "layer_kinds");
    uint32_t i;

    for (i = 0; list != NULL && i < report->kind_count; i++) {
        cJSON *item = cJSON_CreateObject();
        if (item == NULL || !cJSON_AddItemToArray(list, item) ||
            !put_kind(item, report, &report->kinds[i]))
            return 0;
    }
    return list != NULL;
}

static char *print_object(cJSON *object)
{
    char *text = NULL;
    char *grown = NULL;
    size_t length;

    if (object == NULL)
        return NULL;
    text = cJSON_Print(object);
    cJSON_Delete(object);
    if (text == NULL)
        return NULL;
    length = strlen(text);
    grown = realloc(text, length + 2);
    if (grown == NULL) {
        free(text);
        return NULL;
    }
    memcpy(grown + length, "\n", 2);
    return grown;
}

char *describe_json(describe_report *report)
{
    return print_object(report_object(report));
}

char *describe_json_kinds(describe_report *report)
{
    cJSON *object = report_object(report);

    if (object != NULL && !put_kinds(object, report)) {
        (void)snprintf(report->message, sizeof report->message, "no memory for the report");
        cJSON_Delete(object);
        return NULL;
    }
    return print_object(object);
}
