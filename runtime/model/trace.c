/* The trace: every resolved value, and the key or the rule that it comes from. */
#include "resolve.h"

#include <stdio.h>

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

static void tell_sections(const rhumb_keys_info *info, const char *name, const rhumb_schedule *s)
{
    const uint32_t *n = s->mrope.sections;
    char text[48];

    (void)snprintf(text, sizeof text, "%u, %u, %u", (unsigned)n[0], (unsigned)n[1], (unsigned)n[2]);
    tell(info, name, "mrope_section", text, s->sections_source);
    tell(info, name, "mrope_interleaved",
         s->mrope.order == RHUMB_MROPE_INTERLEAVED ? "true" : "false", "rule of the family");
}

static void tell_schedule(const rhumb_keys_info *info, const rhumb_model_values *r,
                          const char *name, const rhumb_type_values *type)
{
    const rhumb_schedule *s = &type->schedule;
    char offset[16];
    uint32_t i;

    tell(info, name, "rope_type", s->type_name, s->type_source);
    tell(info, name, "layout", r->pairing == RHUMB_PAIRING_HALF ? "half" : "interleaved",
         r->pairing_source);
    tell_number(info, name, "head_dim", &type->head_dim);
    tell_number(info, name, "rotary_dim", &s->rotary_dim);
    (void)snprintf(offset, sizeof offset, "%u", (unsigned)s->rope.rotary_offset);
    tell(info, name, "rotary_offset", offset,
         s->rope.rotary_offset != 0 ? r->nope_dim.source : r->family_rule);
    tell_number(info, name, "rope_theta", &s->theta);
    for (i = 0; i < s->note_count; i++)
        tell(info, name, s->notes[i].field, s->notes[i].value, s->notes[i].source);
    if (s->several)
        tell_sections(info, name, s);
    tell_number(info, name, "attention_factor", &s->magnitude);
    if (s->part.value != 0.0)
        tell_number(info, name, "partial_rotary_factor", &s->part);
}

static void tell_count(const rhumb_keys_info *info, const char *kind, const char *field,
                       const rhumb_sourced *number)
{
    if (number->value != 0.0)
        tell_number(info, kind, field, number);
    else
        tell(info, kind, field, "not known", number->source);
}

static void tell_heads(const rhumb_keys_info *info, const rhumb_model_values *r, const char *name,
                       const rhumb_type_values *type)
{
    tell_count(info, name, "heads", &r->heads);
    tell_count(info, name, "kv_heads", &type->kv_heads);
    tell_number(info, name, "softmax_scale", &type->scale);
    if (r->family->head_rule == RHUMB_HEAD_MLA) {
        tell_number(info, name, "qk_nope_head_dim", &r->nope_dim);
        tell_number(info, name, "qk_rope_head_dim", &r->rope_dim);
        tell_number(info, name, "v_head_dim", &r->value_dim);
    }
}

static void tell_window(const rhumb_keys_info *info, const rhumb_model_values *r,
                        const rhumb_kind_values *kind)
{
    rhumb_window_rule rule = r->family->window_rule;
    const char *field = rule == RHUMB_WINDOW_LOCAL    ? "local_attention"
                        : rule == RHUMB_WINDOW_CHUNKS ? "attention_chunk_size"
                                                      : "sliding_window";
    uint32_t i;
    int others = 0;

    for (i = 0; i < r->kind_count; i++)
        others |= r->kinds[i].sliding;
    if (kind->sliding)
        tell_number(info, kind->name, field, &r->window);
    else
        tell(info, kind->name, field, "none",
             others ? "rule: full_attention layers" : r->window.source);
}

void rhumb_model_print_layers(const uint32_t *layers, uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    uint32_t i;
    uint32_t end;

    text[0] = '\0';
    for (i = 0; i < count; i = end) {
        char range[32];
        for (end = i; end < count && layers[end / 32] >> end % 32 & 1u; end++)
            ;
        if (end == i) {
            end = i + 1;
            continue;
        }
        if (end == i + 1)
            (void)snprintf(range, sizeof range, "%u", (unsigned)i);
        else
            (void)snprintf(range, sizeof range, "%u-%u", (unsigned)i, (unsigned)end - 1);
        if (used + strlen(range) + 8 > size) {
            (void)snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", range);
    }
}

static void tell_layers(const rhumb_keys_info *info, const rhumb_model_values *r,
                        const rhumb_kind_values *kind)
{
    char text[40];

    if (r->kind_count < 2 && !r->has_gaps)
        return;
    rhumb_model_print_layers(kind->layers, r->layer_count, text, sizeof text);
    tell(info, kind->name, "layers", r->layer_count > 0 ? text : "not known",
         r->layer_count > 0 ? r->layers_source : "layer_types: missing");
}

/* What a record of ATTENTION has to be told beside scheme and window. */
static void tell_around(const rhumb_keys_info *info, const rhumb_model_values *r,
                        const rhumb_kind_values *kind)
{
    if (r->family->sinks)
        tell(info, kind->name, "warning", "sinks",
             "the softmax has one learned logit more per head: RHUMB_VIEW_SINKS");
    if (kind->sliding && r->family->window_rule == RHUMB_WINDOW_CHUNKS)
        tell(info, kind->name, "warning", "attention_chunk_size",
             "queries see their own block of keys only: rhumb_dispatch.chunk");
    if (!kind->turns && r->temperature.value != 0.0)
        tell(info, kind->name, "warning", "attn_temperature_tuning",
             "queries grow with the position: RHUMB_VIEW_ROW_SCALE");
}

static void tell_kind(const rhumb_keys_info *info, const rhumb_model_values *r,
                      const rhumb_kind_values *kind)
{
    const rhumb_type_values *type = &r->types[rhumb_type_of(r, kind)];
    const char *name = kind->name;

    if (kind->turns) {
        tell(info, name, "scheme", type->schedule.several ? "mrope" : "rope", r->family_rule);
        tell_schedule(info, r, name, type);
    } else {
        tell(info, name, "scheme", "none", r->layers_source);
        tell_number(info, name, "head_dim", &type->head_dim);
    }
    tell_heads(info, r, name, type);
    tell(info, name, "causal", r->family->bidirectional ? "false" : "true", r->family_rule);
    tell_window(info, r, kind);
    tell_layers(info, r, kind);
    if (r->softcap.value != 0.0)
        tell_number(info, name, "attn_logit_softcapping", &r->softcap);
    if (!kind->turns && r->temperature.value != 0.0) {
        tell_number(info, name, "attn_scale", &r->temperature);
        tell_number(info, name, "floor_scale", &r->temperature_length);
    }
    tell_around(info, r, kind);
}

static void tell_vision(const rhumb_keys_info *info, const rhumb_model_values *r)
{
    const char *name = r->kind_count > 0 ? "vision" : "attention";
    const rhumb_vision *v = &r->vision;
    int periods = v->plane.frequency == RHUMB_ROPE2D_PERIODS;
    uint32_t i;

    tell(info, name, "scheme", "rope2d", v->rule);
    tell(info, name, "variant", v->variant, v->rule);
    tell(info, name, "layout", "half", v->rule);
    tell_number(info, name, "head_dim", &v->head_dim);
    tell_number(info, name, periods ? "temperature" : "rope_theta", &v->base);
    for (i = 0; i < v->note_count; i++)
        tell(info, name, v->notes[i].field, v->notes[i].value, v->notes[i].source);
    tell_number(info, name, "heads", &v->heads);
    tell(info, name, "causal", "false", v->rule);
}

void rhumb_model_trace(const rhumb_keys_info *info, const rhumb_model_values *r)
{
    uint32_t i;

    for (i = 0; i < r->kind_count; i++)
        tell_kind(info, r, &r->kinds[i]);
    if (r->vision.present)
        tell_vision(info, r);
    for (i = 0; i < r->warning_count; i++)
        tell(info, r->kind_count > 0 ? r->kinds[0].name : "attention", "warning",
             r->warnings[i].key, r->warnings[i].trap);
}

