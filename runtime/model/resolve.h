/* What a configuration of a rotary model resolves to, before it becomes layer kinds: shared by
 * keys.c (entry point), heads.c (head counts, softmax scale), layers.c (which layer is of which
 * kind), place.c (where a schedule's keys are), rotary.c (base, width), scaling.c (context
 * extensions), sections.c (M-RoPE), vision.c (towers), kinds.c (the result) and trace.c. Models
 * without rotary are positions.h's. */
#ifndef RHUMB_MODEL_RESOLVE_H
#define RHUMB_MODEL_RESOLVE_H

#include "../internal.h"
#include "families.h"
#include "lookup.h"

/* Counts above these are no model's. */
#define RHUMB_MOST_HEADS 65536u
#define RHUMB_MOST_HEAD_DIM ((uint32_t)RHUMB_MAX_HEAD_DIM)
#define RHUMB_MOST_HIDDEN 1073741824u
#define RHUMB_MOST_LENGTH 2147483647u

#define RHUMB_MOST_TYPES 2u /* full and sliding layers */
#define RHUMB_MOST_KINDS 4u /* full or sliding, with or without rotary */
#define RHUMB_MOST_NOTES 16u
#define RHUMB_MOST_VISION_NOTES 4u
#define RHUMB_MOST_WARNINGS 8u

/* A line of the trace. */
typedef struct rhumb_note {
    const char *field;
    char value[40];
    char source[128];
} rhumb_note;

typedef struct rhumb_warning {
    char key[128];
    const char *trap;
} rhumb_warning;

/* A rotary schedule. The scheme struct has no lists yet: they are list[], in order. */
typedef struct rhumb_schedule {
    rhumb_rope rope;
    const char *type_name;
    char type_source[128];
    rhumb_sourced rotary_dim;
    rhumb_sourced theta;
    rhumb_sourced part;      /* partial_rotary_factor; 0 where there is no such number */
    rhumb_sourced magnitude; /* value after rhumb_model_finish */
    uint32_t note_count;     /* of the scaling's own values */
    rhumb_note notes[RHUMB_MOST_NOTES];
    uint32_t list_count;        /* lists given: 0 or 2, short and long factors */
    const rhumb_key *lists[2];
    int several;       /* positions of several axes: mrope, whose rope is the above */
    rhumb_mrope mrope;
    char sections_source[128];
} rhumb_schedule;

/* What layers of one type have. Families without a schedule per type have type 0 only. */
typedef struct rhumb_type_values {
    rhumb_sourced kv_heads;
    rhumb_sourced head_dim;
    rhumb_sourced scale;
    rhumb_schedule schedule;
} rhumb_type_values;

/* A vision tower, its layers being a kind of their own. */
typedef struct rhumb_vision {
    int present;
    const char *variant;
    char rule[64]; /* "rule of qwen2_vl" */
    rhumb_rope2d plane;
    rhumb_sourced heads;
    rhumb_sourced head_dim;
    rhumb_sourced base;
    uint32_t note_count;
    rhumb_note notes[RHUMB_MOST_VISION_NOTES];
} rhumb_vision;

typedef struct rhumb_kind_values {
    char name[32];
    int sliding; /* or in chunks */
    int turns;   /* has rotary */
    uint32_t layers[RHUMB_MAX_LAYERS / 32];
} rhumb_kind_values;

typedef struct rhumb_model_values {
    const rhumb_family *family;
    char family_rule[64]; /* "rule of llama" */
    rhumb_sourced heads;
    rhumb_sourced softcap;   /* 0: none */
    rhumb_sourced nope_dim;  /* of RHUMB_HEAD_MLA: width of the part that does not turn ... */
    rhumb_sourced rope_dim;  /*   and of the part that does */
    rhumb_sourced value_dim; /* 0: as head_dim */
    rhumb_sourced temperature; /* of layers without rotary; 0: none */
    rhumb_sourced temperature_length;
    rhumb_pairing pairing;
    char pairing_source[128];
    uint32_t type_count; /* 0: no text part */
    rhumb_type_values types[RHUMB_MOST_TYPES];
    /* layers */
    rhumb_sourced window;    /* of the sliding layers; source says why there is none */
    uint32_t layer_count;    /* as in rhumb_layer_kind */
    char layers_source[128];
    int has_gaps;            /* some layers have no attention */
    uint32_t kind_count;
    rhumb_kind_values kinds[RHUMB_MOST_KINDS];
    rhumb_vision vision;
    uint32_t warning_count;
    rhumb_warning warnings[RHUMB_MOST_WARNINGS];
} rhumb_model_values;

/* Whether the family's layers of the kind use type 1. */
static inline uint32_t rhumb_type_of(const rhumb_model_values *r, const rhumb_kind_values *kind)
{
    return r->family->by_type && kind->sliding ? 1u : 0u;
}

rhumb_result rhumb_model_heads(const rhumb_lookup *l, rhumb_model_values *r);
/* Falcon's key/value heads, rotary or not. */
rhumb_result rhumb_model_falcon_kv(const rhumb_lookup *l, const rhumb_sourced *heads,
                                   rhumb_sourced *kv_heads);
rhumb_result rhumb_model_softcap(const rhumb_lookup *l, rhumb_model_values *r);
rhumb_result rhumb_model_temperature(const rhumb_lookup *l, rhumb_model_values *r);

/* After rhumb_model_heads and rhumb_model_rotary. */
rhumb_result rhumb_model_scale(const rhumb_lookup *l, rhumb_model_values *r);

/* Windows, kinds and their layers. */
rhumb_result rhumb_model_layers(const rhumb_lookup *l, rhumb_model_values *r);

/* After rhumb_model_heads. */
rhumb_result rhumb_model_rotary(const rhumb_lookup *l, rhumb_model_values *r);

/* The tower of the row that model_type names, if there is one. */
rhumb_result rhumb_model_vision(const rhumb_lookup *l, rhumb_model_values *r,
                                const rhumb_family *family);

/* The objects in which a schedule's keys stand, the first before the second; NULL: none. */
typedef struct rhumb_place {
    const char *objects[2];
    const char *theta_keys[2]; /* outside of them, likewise */
    double theta;              /* without any of the keys; 0: needed */
} rhumb_place;

/* "object.name", in a buffer of 128. */
const char *rhumb_place_path(char path[128], const char *object, const char *name);

/* Whether rope_parameters or rope_scaling is an object with the nesting that the family has. */
rhumb_result rhumb_place_check(const rhumb_lookup *l, const rhumb_family *family,
                               const char *object);

/* Whether the family has rope_theta and rope_scaling. */
int rhumb_place_is_scaled(const rhumb_family *family);

rhumb_result rhumb_place_find(const rhumb_lookup *l, const rhumb_model_values *r, uint32_t type,
                              rhumb_place *place);

/* The scaling's type, and whether the objects have keys that it does not take. */
rhumb_result rhumb_place_type(const rhumb_lookup *l, rhumb_model_values *r,
                              const rhumb_place *place, rhumb_schedule *schedule);

/* The scaling's values: schedule->rope and the notes. After type, base and rotary_dim. */
rhumb_result rhumb_model_scaling(const rhumb_lookup *l, rhumb_model_values *r,
                                 const rhumb_place *place, rhumb_schedule *schedule);

/* The sections of a family with positions of several axes. After rhumb_model_scaling. */
rhumb_result rhumb_model_sections(const rhumb_lookup *l, const rhumb_model_values *r,
                                  const rhumb_place *place, rhumb_schedule *schedule);

/* Asks the scheme itself: the magnitude, or why the schedule is none. Lists are read from the
 * keys. */
rhumb_result rhumb_model_finish(const rhumb_lookup *l, rhumb_model_values *r);

void rhumb_model_warn(rhumb_model_values *r, const char *trap, const char *scope, const char *key);

/* Layer kinds: those of the text part, and the tower. */
uint32_t rhumb_model_kind_count(const rhumb_model_values *r);

/* Scheme structs and lists, in bytes. */
size_t rhumb_model_arena_size(const rhumb_model_values *r);

/* Room in the caller's memory: for `count` kinds, and for `size` bytes in the arena, aligned for
 * any scheme struct. */
rhumb_result rhumb_model_room(const rhumb_lookup *l, const rhumb_keys_info *info, uint32_t count,
                              size_t size, char **arena);

/* Writes the arena (aligned for rhumb_rope) and the kinds, and traces. */
void rhumb_model_commit(const rhumb_keys_info *info, const rhumb_model_values *r, char *arena);

/* "0-4, 6-10, ..." */
void rhumb_model_print_layers(const uint32_t *layers, uint32_t count, char *text, size_t size);

void rhumb_model_trace(const rhumb_keys_info *info, const rhumb_model_values *r);

#endif
