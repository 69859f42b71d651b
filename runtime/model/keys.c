/* rhumb_scheme_from_keys: configuration keys of a published model -> layer kinds.
 *
 * families.c has one row per model_type; heads.c and rotary.c follow its rules; here the result
 * becomes layer kinds and the trace. Nothing is written to the caller's memory before all of it is
 * resolved. */
#include "resolve.h"

#include <stdio.h>

#define MAX_KINDS 2u

static rhumb_result check_info(const rhumb_lookup *l, const rhumb_keys_info *info)
{
    rhumb_layer_kind complete;
    const rhumb_layer_kind *first = info->kinds;

    if (info->keys == NULL && info->key_count > 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: keys: wanted %u keys, found NULL",
                                 (unsigned)info->key_count);
    if (first == NULL || info->kind_capacity == 0)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: kinds: wanted room for 1, found none");
    if (info->arena == NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: arena: wanted memory, found NULL");
    if (rhumb_adopt(NULL, "scheme_from_keys", "kinds[0]", first, RHUMB_TYPE_LAYER_KIND, &complete,
                    sizeof complete) != RHUMB_OK)
        return rhumb_lookup_fail(l, RHUMB_ERROR_VERSION, "%.300s", rhumb_last_message(NULL));
    if (first->struct_size % _Alignof(rhumb_layer_kind) != 0)
        return rhumb_lookup_fail(
            l, RHUMB_ERROR_VERSION,
            "scheme_from_keys: kinds[0].struct_size: wanted a multiple of %u, found %u",
            (unsigned)_Alignof(rhumb_layer_kind), (unsigned)first->struct_size);
    return rhumb_lookup_check(l);
}

/* "llama, mistral, ...": as many as fit. */
static void list_families(char *text, size_t size)
{
    const rhumb_family *family;
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; (family = rhumb_family_at(i)) != NULL; i++) {
        if (family->later != NULL || used + strlen(family->model_type) + 3 > size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                 family->model_type);
    }
}

static rhumb_result find_family(const rhumb_lookup *l, const rhumb_family **family)
{
    char known[384];
    const char *model_type;
    int found;

    RHUMB_TRY(rhumb_lookup_string(l, "model_type", &model_type, &found));
    list_families(known, sizeof known);
    if (!found)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "model_type: missing, wanted one of %s",
                                 known);
    *family = rhumb_family_find(model_type);
    if (*family == NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "model_type: found %.48s, wanted one of %s",
                                 model_type, known);
    if ((*family)->later != NULL)
        return rhumb_lookup_fail(l, RHUMB_ERROR_CONFIG, "not implemented: model_type %s: %s",
                                 model_type, (*family)->later);
    return RHUMB_OK;
}

static rhumb_result resolve(const rhumb_lookup *l, rhumb_model_values *r)
{
    RHUMB_TRY(find_family(l, &r->family));
    RHUMB_TRY(rhumb_model_heads(l, r));
    RHUMB_TRY(rhumb_model_rotary(l, r));
    RHUMB_TRY(rhumb_model_layers(l, r));
    RHUMB_TRY(rhumb_model_softcap(l, r));
    return rhumb_model_scale(l, r);
}

/* Room in the arena, or NULL. */
static rhumb_rope *place_rope(const rhumb_keys_info *info)
{
    size_t align = _Alignof(rhumb_rope);
    size_t skip = (align - (uintptr_t)info->arena % align) % align;

    if (info->arena_size < skip || info->arena_size - skip < sizeof(rhumb_rope))
        return NULL;
    return (rhumb_rope *)(void *)((char *)info->arena + skip);
}

static void fill_rope(const rhumb_model_values *r, rhumb_rope *rope)
{
    rhumb_init_rope(rope);
    rope->pairing = r->family->pairing;
    rope->scaling = r->scaling;
    rope->rotary_dim = (uint32_t)r->rotary_dim.value;
    rope->base = r->theta.value;
    rope->factor = r->factor.value;
}

static void fill_kind(const rhumb_model_values *r, const rhumb_rope *rope, const char *name,
                      int sliding, rhumb_layer_kind *kind)
{
    rhumb_init_layer_kind(kind);
    (void)snprintf(kind->name, sizeof kind->name, "%s", name);
    kind->rotary = rope;
    kind->heads = (uint32_t)r->heads.value;
    kind->kv_heads = (uint32_t)r->kv_heads.value;
    kind->head_dim = (uint32_t)r->head_dim.value;
    kind->causal = 1;
    kind->scale = r->scale.value;
    if (r->softcap.value != 0.0)
        kind->softcap = r->softcap.value;
    if (sliding)
        kind->window_left = (int32_t)r->window.value;
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

static void tell_kind(const rhumb_keys_info *info, const rhumb_model_values *r,
                      const rhumb_layer_kind *kind)
{
    const char *name = kind->name;
    int half = r->family->pairing == RHUMB_PAIRING_HALF;
    int linear = r->scaling == RHUMB_ROPE_SCALING_LINEAR;
    char rule[128];

    (void)snprintf(rule, sizeof rule, "rule of %s", r->family->model_type);
    tell(info, name, "scheme", "rope", rule);
    tell(info, name, "rope_type", linear ? "linear" : "default", r->type_source);
    tell(info, name, "layout", half ? "half" : "interleaved", rule);
    tell_number(info, name, "head_dim", &r->head_dim);
    tell_number(info, name, "rotary_dim", &r->rotary_dim);
    tell(info, name, "rotary_offset", "0", rule);
    tell_number(info, name, "rope_theta", &r->theta);
    if (linear)
        tell_number(info, name, "factor", &r->factor);
    tell(info, name, "attention_factor", "1",
         linear ? "rule of rope type linear" : "rule of rope type default");
    if (r->family->part_rule == RHUMB_PART_FACTOR || r->family->part_rule == RHUMB_PART_FIXED)
        tell_number(info, name, "partial_rotary_factor", &r->part);
    tell_number(info, name, "heads", &r->heads);
    tell_number(info, name, "kv_heads", &r->kv_heads);
    tell_number(info, name, "softmax_scale", &r->scale);
    tell(info, name, "causal", "true", rule);
    if (kind->window_left != RHUMB_NO_WINDOW)
        tell_number(info, name, "sliding_window", &r->window);
    else
        tell(info, name, "sliding_window", "none",
             r->has_sliding ? "rule: full_attention layers" : r->window.source);
    if (r->softcap.value != 0.0)
        tell_number(info, name, "attn_logit_softcapping", &r->softcap);
}

static void commit(const rhumb_keys_info *info, const rhumb_model_values *r, rhumb_rope *rope,
                   uint32_t count)
{
    size_t step = info->kinds->struct_size;
    uint32_t i;

    fill_rope(r, rope);
    for (i = 0; i < count; i++) {
        int sliding = r->has_sliding && (i == 1 || !r->has_full);
        const char *name = count == 1 ? "attention"
                           : sliding  ? "sliding_attention"
                                      : "full_attention";
        rhumb_layer_kind kind;

        fill_kind(r, rope, name, sliding, &kind);
        kind.struct_size = (uint32_t)step;
        memcpy((char *)info->kinds + i * step, &kind, step);
        tell_kind(info, r, &kind);
    }
}

rhumb_result rhumb_scheme_from_keys(const rhumb_keys_info *given, uint32_t *kind_count)
{
    rhumb_model_values resolved;
    rhumb_keys_info info;
    rhumb_lookup lookup;
    rhumb_rope *rope;
    uint32_t count;

    if (kind_count != NULL)
        *kind_count = 0;
    if (kind_count == NULL)
        return rhumb_fail(NULL, RHUMB_ERROR_ARGUMENT,
                          "scheme_from_keys: kind_count: wanted a pointer, found NULL");
    rhumb_init_keys_info(&info);
    RHUMB_TRY(rhumb_adopt(NULL, "scheme_from_keys", "keys_info", given, RHUMB_TYPE_KEYS_INFO, &info,
                          sizeof info));
    lookup = (rhumb_lookup){info.keys, info.key_count, info.message, info.message_size};
    if (info.message != NULL && info.message_size > 0)
        info.message[0] = '\0';
    memset(&resolved, 0, sizeof resolved);
    RHUMB_TRY(check_info(&lookup, &info));
    RHUMB_TRY(resolve(&lookup, &resolved));
    count = resolved.has_full && resolved.has_sliding ? MAX_KINDS : 1u;
    if (info.kind_capacity < count)
        return rhumb_lookup_fail(&lookup, RHUMB_ERROR_ARGUMENT,
                                 "scheme_from_keys: kinds: wanted room for %u, found %u",
                                 (unsigned)count, (unsigned)info.kind_capacity);
    rope = place_rope(&info);
    if (rope == NULL)
        return rhumb_lookup_fail(&lookup, RHUMB_ERROR_HOST_MEMORY,
                                 "scheme_from_keys: arena: wanted %u bytes, found %zu",
                                 (unsigned)(sizeof *rope + _Alignof(rhumb_rope)), info.arena_size);
    commit(&info, &resolved, rope, count);
    *kind_count = count;
    return RHUMB_OK;
}
