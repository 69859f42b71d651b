/* What the rules of models without rotary share: kinds with their sizes, notes, and the result in
 * the caller's memory. */
#include "positions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* --- notes --- */

static rhumb_position_line *next_note(rhumb_positions *p, const rhumb_position_kind *kind,
                                      const char *field)
{
    rhumb_position_line *n = &p->notes[p->note_count];

    if (p->note_count == RHUMB_MOST_POSITION_NOTES)
        return NULL;
    p->note_count++;
    n->kind = (uint32_t)(kind - p->kinds);
    n->field = field;
    return n;
}

void rhumb_position_note_text(rhumb_positions *p, const rhumb_position_kind *kind,
                              const char *field, const char *value, const char *source, ...)
{
    rhumb_position_line *n = next_note(p, kind, field);
    va_list arguments;

    if (n == NULL)
        return;
    (void)snprintf(n->value, sizeof n->value, "%s", value);
    va_start(arguments, source);
    (void)vsnprintf(n->source, sizeof n->source, source, arguments);
    va_end(arguments);
}

void rhumb_position_note_number(rhumb_positions *p, const rhumb_position_kind *kind,
                                const char *field, double value, const char *source, ...)
{
    rhumb_position_line *n = next_note(p, kind, field);
    va_list arguments;

    if (n == NULL)
        return;
    (void)rhumb_lookup_print_number(value, n->value, sizeof n->value);
    va_start(arguments, source);
    (void)vsnprintf(n->source, sizeof n->source, source, arguments);
    va_end(arguments);
}

void rhumb_position_note(rhumb_positions *p, const rhumb_position_kind *kind, const char *field,
                         const rhumb_sourced *value)
{
    rhumb_position_note_number(p, kind, field, value->value, "%.95s", value->source);
}

void rhumb_position_note_pair(rhumb_positions *p, const rhumb_position_kind *kind,
                              const char *field, const uint32_t pair[2], const char *source)
{
    char text[40];

    (void)snprintf(text, sizeof text, "%u, %u", (unsigned)pair[0], (unsigned)pair[1]);
    rhumb_position_note_text(p, kind, field, text, "%s", source);
}

void rhumb_position_warn(const rhumb_lookup *l, rhumb_positions *p, const char *key,
                         const char *trap)
{
    rhumb_warning *w = &p->warnings[p->warning_count];

    if (p->warning_count == RHUMB_MOST_WARNINGS)
        return;
    w->trap = trap;
    (void)snprintf(w->key, sizeof w->key, "%.40s%.80s", l->scope, key);
    p->warning_count++;
}

/* --- keys --- */

rhumb_result rhumb_position_either(const rhumb_lookup *l, const char *who,
                                   const char *const keys[2], uint32_t most, rhumb_sourced *value)
{
    rhumb_sourced other;
    int first = 0;
    int second = 0;

    if (keys[1] == NULL)
        return rhumb_lookup_need_integer(l, who, keys[0], 1, most, value);
    RHUMB_TRY(rhumb_lookup_integer(l, keys[1], 1, most, &other, &second));
    if (!second)
        return rhumb_lookup_need_integer(l, who, keys[0], 1, most, value);
    RHUMB_TRY(rhumb_lookup_integer(l, keys[0], 1, most, value, &first));
    if (first && value->value != other.value)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted %.0f as %s, found %.0f",
                                 other.source, value->value, value->source, other.value);
    if (!first)
        *value = other;
    return RHUMB_OK;
}

rhumb_result rhumb_position_integer(const rhumb_lookup *l, const char *who, const char *key,
                                    uint32_t least, uint32_t most, uint32_t otherwise,
                                    rhumb_sourced *value)
{
    int found = 0;

    if (key != NULL)
        RHUMB_TRY(rhumb_lookup_integer(l, key, least, most, value, &found));
    if (!found)
        rhumb_sourced_set(value, otherwise, key != NULL ? "default of %s" : "rule of %s", who);
    return RHUMB_OK;
}

rhumb_result rhumb_position_bool(const rhumb_lookup *l, const char *key, int otherwise, int *value)
{
    int found;

    *value = otherwise;
    return rhumb_lookup_bool(l, key, value, &found);
}

/* --- kinds --- */

rhumb_position_kind *rhumb_position_begin(rhumb_positions *p, const char *name)
{
    rhumb_position_kind *kind = &p->kinds[p->kind_count++];

    rhumb_init_layer_kind(&kind->layer);
    (void)snprintf(kind->layer.name, sizeof kind->layer.name, "%s", name);
    (void)snprintf(kind->causal_source, sizeof kind->causal_source, "rule of %.64s", p->who);
    (void)snprintf(kind->scheme_source, sizeof kind->scheme_source, "rule of %.64s", p->who);
    return kind;
}

rhumb_result rhumb_position_size(const rhumb_lookup *l, rhumb_position_kind *kind)
{
    if (kind->head_dim.value > RHUMB_MOST_HEAD_DIM)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted at most %u for each head, found %.0f",
                                 kind->head_dim.source, RHUMB_MOST_HEAD_DIM, kind->head_dim.value);
    if (kind->kv_heads.value == 0.0)
        rhumb_sourced_set(&kind->kv_heads, kind->heads.value, "%.96s", kind->heads.source);
    if (fmod(kind->heads.value, kind->kv_heads.value) != 0.0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a divisor of %.0f heads, found %.0f",
                                 kind->kv_heads.source, kind->heads.value, kind->kv_heads.value);
    rhumb_sourced_set(&kind->scale, 1.0 / sqrt(kind->head_dim.value), "rule: head_dim^-1/2");
    kind->layer.heads = (uint32_t)kind->heads.value;
    kind->layer.kv_heads = (uint32_t)kind->kv_heads.value;
    kind->layer.head_dim = (uint32_t)kind->head_dim.value;
    return RHUMB_OK;
}

static rhumb_result read_layers(const rhumb_lookup *l, const char *key, rhumb_layer_kind *layer)
{
    rhumb_sourced count;
    int found = 0;
    uint32_t i;

    if (key != NULL)
        RHUMB_TRY(rhumb_lookup_integer(l, key, 1, RHUMB_MAX_LAYERS, &count, &found));
    layer->layer_count = found ? (uint32_t)count.value : 0;
    for (i = 0; i < layer->layer_count; i++)
        layer->layers[i / 32] |= 1u << i % 32;
    return RHUMB_OK;
}

rhumb_result rhumb_position_add(const rhumb_lookup *l, rhumb_positions *p, const char *name,
                                const rhumb_stack_keys *keys, rhumb_position_kind **made)
{
    rhumb_position_kind *kind = rhumb_position_begin(p, name);

    *made = kind;
    RHUMB_TRY(rhumb_position_either(l, p->who, keys->heads, RHUMB_MOST_HEADS, &kind->heads));
    RHUMB_TRY(rhumb_position_either(l, p->who, keys->width, RHUMB_MOST_HIDDEN, &kind->width));
    if (keys->head_dim != NULL) {
        RHUMB_TRY(rhumb_lookup_need_integer(l, p->who, keys->head_dim, 1, RHUMB_MOST_HEAD_DIM,
                                            &kind->head_dim));
    } else {
        if (fmod(kind->width.value, kind->heads.value) != 0.0)
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG, "%s: wanted a multiple of %s %.0f, found %.0f",
                kind->width.source, kind->heads.source, kind->heads.value, kind->width.value);
        rhumb_sourced_set(&kind->head_dim, kind->width.value / kind->heads.value, "%.60s / %.60s",
                          kind->width.source, kind->heads.source);
    }
    RHUMB_TRY(read_layers(l, keys->layers, &kind->layer));
    return rhumb_position_size(l, kind);
}

void rhumb_position_causal(rhumb_position_kind *kind, int causal, const char *source)
{
    kind->layer.causal = causal != 0;
    if (source != NULL)
        (void)snprintf(kind->causal_source, sizeof kind->causal_source, "%s", source);
}

rhumb_result rhumb_position_direction(const rhumb_lookup *l, const rhumb_position_family *f,
                                      rhumb_position_kind *kind)
{
    int decoder = 0;
    int found;

    RHUMB_TRY(rhumb_lookup_bool(l, "is_decoder", &decoder, &found));
    rhumb_position_causal(kind, f->causal || decoder, found && !f->causal ? "is_decoder" : NULL);
    return RHUMB_OK;
}

void rhumb_position_learned(rhumb_positions *p, rhumb_position_kind *kind,
                            const rhumb_sourced *rows, const rhumb_sourced *width, int32_t offset)
{
    rhumb_init_learned(&kind->absolute.learned);
    kind->absolute.learned.offset = offset;
    kind->layer.absolute_rows = (uint32_t)rows->value;
    kind->layer.absolute_dim = (uint32_t)width->value;
    rhumb_position_note_text(p, kind, kind->relative.header.type != 0 ? "absolute" : "scheme",
                             "learned", "rule of %.64s", p->who);
    rhumb_position_note(p, kind, "table_rows", rows);
    rhumb_position_note(p, kind, "dim", width);
}

/* --- grids --- */

static rhumb_result read_sides(const rhumb_lookup *l, const char *who, const char *key,
                               double sides[2])
{
    const rhumb_key *found;
    rhumb_sourced number;
    char have[80];
    uint32_t i;

    RHUMB_TRY(rhumb_lookup_find(l, key, &found));
    if (found == NULL || found->kind != RHUMB_VALUE_LIST) {
        RHUMB_TRY(rhumb_lookup_need_integer(l, who, key, 1, RHUMB_MOST_LENGTH, &number));
        sides[0] = sides[1] = number.value;
        return RHUMB_OK;
    }
    if (found->count != 2)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                 "%s: wanted a number or a list of 2, found %s", found->path,
                                 rhumb_lookup_print(found, have, sizeof have));
    for (i = 0; i < 2; i++) {
        const rhumb_key *item = &found->items[i];
        if (item->kind != RHUMB_VALUE_NUMBER || floor(item->number) != item->number ||
            !(item->number >= 1.0 && item->number <= RHUMB_MOST_LENGTH))
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%s: item %u: wanted an integer from 1 to %u, found %s",
                                     found->path, (unsigned)i, RHUMB_MOST_LENGTH,
                                     rhumb_lookup_print(item, have, sizeof have));
        sides[i] = item->number;
    }
    return RHUMB_OK;
}

#define MOST_SIDE 16384.0 /* of a grid, so that its tokens are counted in 32 bits */

rhumb_result rhumb_position_grid(const rhumb_lookup *l, const char *who, uint32_t grid[2])
{
    double image[2];
    double patch[2];
    uint32_t i;

    RHUMB_TRY(read_sides(l, who, "image_size", image));
    RHUMB_TRY(read_sides(l, who, "patch_size", patch));
    for (i = 0; i < 2; i++) {
        double side = floor(image[i] / patch[i]);
        if (!(side >= 1.0 && side <= MOST_SIDE))
            return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                     "%simage_size: wanted 1 to %.0f times patch_size %.0f, found "
                                     "%.0f",
                                     l->scope, MOST_SIDE, patch[i], image[i]);
        grid[i] = (uint32_t)side;
    }
    return RHUMB_OK;
}

/* --- the result --- */

static rhumb_result ask_relative(const rhumb_lookup *l, const rhumb_position_kind *kind)
{
    rhumb_plan_info info;
    rhumb_terms terms;

    if (kind->relative.header.type == 0)
        return RHUMB_OK;
    rhumb_init_plan_info(&info, RHUMB_OP_PROJECT);
    info.heads = kind->layer.heads;
    info.kv_heads = kind->layer.kv_heads;
    info.head_dim = info.value_dim = kind->layer.head_dim;
    info.max_q_length = info.max_k_length = 1;
    memset(&terms, 0, sizeof terms);
    if (rhumb_resolve_terms(NULL, &kind->relative, &info, &terms) != RHUMB_OK)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: %.300s", kind->scheme_source,
                                 rhumb_last_message(NULL));
    return RHUMB_OK;
}

/* Tokens of the scheme's grid, which becomes 1 x 1 where it is the host's; 1 without a grid. */
static uint32_t count_tokens(rhumb_absolute *absolute)
{
    uint32_t *grid = NULL;
    uint32_t prefix = 0;

    if (absolute->header.type == RHUMB_TYPE_SINUSOIDAL2D) {
        grid = absolute->sinusoidal2d.grid;
        prefix = absolute->sinusoidal2d.prefix_tokens;
    } else if (absolute->header.type == RHUMB_TYPE_LEARNED2D) {
        grid = absolute->learned2d.grid;
        prefix = absolute->learned2d.prefix_tokens;
    }
    if (grid == NULL)
        return 1;
    if (grid[0] == 0)
        grid[0] = grid[1] = 1;
    return prefix + grid[0] * grid[1];
}

static rhumb_result ask_absolute(const rhumb_lookup *l, const rhumb_position_kind *kind)
{
    rhumb_absolute absolute = kind->absolute;
    rhumb_plan_info info;
    rhumb_encoding encoding;

    if (absolute.header.type == 0)
        return RHUMB_OK;
    if (kind->layer.absolute_dim > RHUMB_MAX_CHANNELS)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: wanted at most %u channels, found %u",
                                 kind->width.source, (unsigned)RHUMB_MAX_CHANNELS,
                                 (unsigned)kind->layer.absolute_dim);
    rhumb_init_plan_info(&info, RHUMB_OP_ENCODE);
    info.head_dim = info.value_dim = kind->layer.absolute_dim;
    info.kv_heads = 1;
    info.max_q_length = info.max_k_length = count_tokens(&absolute);
    memset(&encoding, 0, sizeof encoding);
    if (rhumb_resolve_encoding(NULL, &absolute, &info, &encoding) != RHUMB_OK)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "%s: %.300s", kind->width.source,
                                 rhumb_last_message(NULL));
    return RHUMB_OK;
}

/* Asks the schemes themselves. */
static rhumb_result finish(const rhumb_lookup *l, const rhumb_positions *p)
{
    uint32_t i;

    for (i = 0; i < p->kind_count; i++) {
        RHUMB_TRY(ask_relative(l, &p->kinds[i]));
        RHUMB_TRY(ask_absolute(l, &p->kinds[i]));
    }
    return RHUMB_OK;
}

/* Bytes of a scheme struct in the arena, a multiple of its alignment. */
static size_t room_of(const rhumb_header *header)
{
    size_t align = _Alignof(rhumb_rope);

    return header->type != 0 ? (header->struct_size + align - 1) / align * align : 0;
}

static const void *write_scheme(const rhumb_header *header, char **arena)
{
    void *scheme = *arena;

    if (header->type == 0)
        return NULL;
    memcpy(scheme, header, header->struct_size);
    *arena += room_of(header);
    return scheme;
}

static void tell(const rhumb_keys_info *info, const char *kind, const char *field,
                 const char *value, const char *source)
{
    if (info->trace != NULL)
        info->trace(info->trace_user, kind, field, value, source);
}

static void tell_number(const rhumb_keys_info *info, const char *kind, const char *field,
                        const rhumb_sourced *number)
{
    char value[40];

    tell(info, kind, field, rhumb_lookup_print_number(number->value, value, sizeof value),
         number->source);
}

static void tell_kind(const rhumb_keys_info *info, const rhumb_positions *p, uint32_t index)
{
    const rhumb_position_kind *kind = &p->kinds[index];
    const char *name = kind->layer.name;
    char layers[40];
    uint32_t i;

    for (i = 0; i < p->note_count; i++) {
        if (p->notes[i].kind == index)
            tell(info, name, p->notes[i].field, p->notes[i].value, p->notes[i].source);
    }
    tell_number(info, name, "heads", &kind->heads);
    tell_number(info, name, "kv_heads", &kind->kv_heads);
    tell_number(info, name, "head_dim", &kind->head_dim);
    tell_number(info, name, "softmax_scale", &kind->scale);
    tell(info, name, "causal", kind->layer.causal ? "true" : "false", kind->causal_source);
    if (kind->layers_source != NULL) {
        rhumb_model_print_layers(kind->layer.layers, kind->layer.layer_count, layers,
                                 sizeof layers);
        tell(info, name, "layers", layers, kind->layers_source);
    }
}

static void commit(const rhumb_keys_info *info, rhumb_positions *p, char *arena)
{
    size_t step = info->kinds->struct_size;
    uint32_t i;

    for (i = 0; i < p->kind_count; i++) {
        rhumb_position_kind *kind = &p->kinds[i];
        kind->layer.scheme = write_scheme(&kind->relative.header, &arena);
        kind->layer.absolute = write_scheme(&kind->absolute.header, &arena);
        kind->layer.scale = kind->scale.value;
        kind->layer.struct_size = (uint32_t)step;
        memcpy((char *)info->kinds + i * step, &kind->layer, step);
        tell_kind(info, p, i);
    }
    for (i = 0; i < p->warning_count; i++)
        tell(info, p->kinds[0].layer.name, "warning", p->warnings[i].key, p->warnings[i].trap);
}

/* Keys of rotary models and of windows, which would be overlooked here. Falcon's files have them
 * whatever its positions are. */
static rhumb_result check_foreign(const rhumb_lookup *l, const rhumb_position_family *family)
{
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    static const char *const keys[] = {"rope_theta", "rope_scaling",   "rope_parameters",
                                       "rotary_dim", "sliding_window", "alibi"};
    const rhumb_key *key;
    char have[80];
    size_t i;
    uint32_t k;

    if (family->switch_key != NULL)
        return RHUMB_OK;
    for (i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        for (k = 0; k < l->key_count; k++) {
            if (rhumb_lookup_below(l, &l->keys[k], objects[i]) != NULL)
                return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG,
                                         "%s: wanted none (rule of %s), found one", objects[i],
                                         family->model_type);
        }
    }
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        RHUMB_TRY(rhumb_lookup_find(l, keys[i], &key));
        if (key != NULL && key->kind != RHUMB_VALUE_NULL &&
            !(key->kind == RHUMB_VALUE_BOOL && key->number == 0.0))
            return rhumb_lookup_fail(
                l, RHUMB_ERROR_CONFIG, "%s: wanted none (rule of %s), found %s", key->path,
                family->model_type, rhumb_lookup_print(key, have, sizeof have));
    }
    return RHUMB_OK;
}

rhumb_result rhumb_position_keys(const rhumb_lookup *l, const rhumb_position_family *family,
                                 const rhumb_keys_info *info, uint32_t *kind_count)
{
    rhumb_positions p;
    size_t size = 0;
    char *arena;
    uint32_t i;

    memset(&p, 0, sizeof p);
    p.who = family->model_type;
    if (family->refusal != NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "not implemented: model_type %s: %s",
                                 family->model_type, family->refusal);
    RHUMB_TRY(check_foreign(l, family));
    RHUMB_TRY(family->rule(l, family, &p));
    RHUMB_TRY(finish(l, &p));
    for (i = 0; i < p.kind_count; i++)
        size += room_of(&p.kinds[i].relative.header) + room_of(&p.kinds[i].absolute.header);
    RHUMB_TRY(rhumb_model_room(l, info, p.kind_count, size, &arena));
    commit(info, &p, arena);
    *kind_count = p.kind_count;
    return RHUMB_OK;
}
