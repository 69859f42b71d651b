#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef RHUMB_ADDRESS
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
// ENCODE: y = x_scale x + pe_scale PE, or pe_scale PE alone (spec: rhumb_schemes.h).
//
//   sinusoid   angle i of coordinate p: p turns_i; its sine and cosine to channels of the layout
//   table      PE = TABLE[row], or a row of TABLE and one of COLUMN_TABLE, side by side or summed
//   offsets    PE = the two coordinates of an offset inside a window
//
// X and Y [B, 1, L, D], or [B, D, H, W] for an image; X may be Y. A unit is a row, or four pixels
// of an image's row; its channels are cut into parts: four angles of an axis with their sines and
// cosines (one angle of four pixels), or channels without angles. One invocation does a part of a
// unit for all batch entries that share positions, up to ENCODE_BATCH; runs of parts where a
// coordinate is a sum over a row or column of VALID. An invocation has a part of ENCODE_ROWS
// rows, which share its frequencies. Rows of a table that are divided by their length have a work
// group each.
#define RHUMB_IN_PLACE
#include "rhumb_shared.h"
#include "lib/io.glsl"
#ifdef RHUMB_ADDRESS
#include "lib/address.glsl"
#endif
#include "lib/position.glsl"
#include "lib/trig.glsl"
#include "lib/sinusoid.glsl"

layout(local_size_x = ENCODE_INVOCATIONS) in;
layout(constant_id = SPEC_ENCODING) const uint ENCODING = 0u;

RHUMB_READ_VIEW(x, VIEW_X)
RHUMB_WRITE_VIEW(y, VIEW_Y)
RHUMB_READ_VIEW(table, VIEW_TABLE)
RHUMB_READ_VIEW(column_table, VIEW_COLUMN_TABLE)
RHUMB_READ_VIEW(valid, VIEW_VALID)
#ifdef RHUMB_ADDRESS // for CPU devices, where rows are aligned
RHUMB_ADDRESS_VIEW(x, VIEW_X)
RHUMB_ADDRESS_STORE(y, VIEW_Y)
RHUMB_ADDRESS_VIEW(table, VIEW_TABLE)
RHUMB_ADDRESS_VIEW(column_table, VIEW_COLUMN_TABLE)
#define LOAD4(name) name##_far4
#define STORE4(name) name##_far_store4
#else
#define LOAD4(name) name##_load4_aligned
#define STORE4(name) name##_store4_aligned
#endif

const bool GRID = (ENCODING & ENCODE_GRID) != 0u;
const bool IMAGE = (ENCODING & ENCODE_IMAGE) != 0u;
const uint CHANNELS = IMAGE ? 2u : ENCODE_CHANNELS; // of a part without angles
const uint ANGLES = IMAGE ? 1u : ENCODE_ANGLES;     // of a part with them
const uint ROWS = (ENCODING & (ENCODE_IMAGE | ENCODE_NORMALIZE)) != 0u ? 1u : ENCODE_ROWS;

shared float squares[ENCODE_INVOCATIONS];

// What one unit is, for batch entries first_b to end_b - 1.
struct Unit {
    uint first_b, end_b;
    bool inside;      // the record asks for it
    bool encoded;     // PE is not 0
    uint l;           // row of X and Y
    uint y, x;        // of the grid: the token, or the first pixel
    uint pixels;      // 1 to 4 of an image
    uvec3 coordinate; // without a grid
    uint row;         // of TABLE, without a grid
    float factor;     // ENCODE_NORMALIZE: of the row
};

bool flag(uint bit)
{
    return (constants.encode_flags & bit) != 0u;
}

// Whether all batch entries have the same positions.
bool is_shared()
{
    return !has_view(VIEW_LENGTHS) &&
           (!has_view(VIEW_POSITIONS_Q) || bindings.view[VIEW_POSITIONS_Q].z == 0u) &&
           (!has_view(VIEW_VALID) || bindings.view[VIEW_VALID].y == 0u);
}

uint unit_count()
{
    return IMAGE ? constants.grid_height * ((constants.grid_width + 3u) / 4u)
                 : uint(push.max_q_length);
}

// Turns of the angles of a part.
struct Turns {
    uvec2 of[4];
};

Turns turns_from(uint first)
{
    Turns t;
    for (uint i = 0u; i < ANGLES; i++)
        t.of[i] = turns_of(min(first + i, constants.angles - 1u));
    return t;
}

// ---- units

void place_on_grid(inout Unit u, uint index)
{
    if (IMAGE) {
        uint quads = (constants.grid_width + 3u) / 4u;
        u.y = index / quads;
        u.x = index % quads * 4u;
        u.pixels = min(4u, constants.grid_width - u.x);
        return;
    }
    u.encoded = u.l >= constants.prefix_tokens;
    uint token = u.encoded ? u.l - constants.prefix_tokens : 0u;
    bool by_columns = flag(ENCODE_FLAG_COLUMN_MAJOR);
    uint side = by_columns ? constants.grid_height : constants.grid_width;
    u.y = by_columns ? token % side : token / side;
    u.x = by_columns ? token / side : token % side;
}

// A row of TABLE for a position; true if it lies outside.
bool look_up(inout Unit u, int position)
{
    if (flag(ENCODE_FLAG_CLAMP_NEGATIVE))
        position = max(position, 0);
    int nearest = clamp(position, -constants.table_offset,
                        push.k_length - 1 - constants.table_offset);
    bool outside = nearest != position;
    u.row = uint(nearest + constants.table_offset);
    u.encoded = !(outside && flag(ENCODE_FLAG_ZERO_OUTSIDE));
    return outside;
}

void place_at_position(inout Unit u, int position, bool counts)
{
    if ((ENCODING & ENCODE_TABLE) != 0u) {
        bool outside = look_up(u, position);
        if (outside && counts && u.inside && has_view(VIEW_STATUS))
            status_add(1u);
        return;
    }
    uvec3 start = uvec3(constants.start_fraction, constants.start_low, constants.start_high);
    u.coordinate = add_coordinates(coordinate_of(position), start);
    u.encoded = !(flag(ENCODE_FLAG_PADDING) &&
                  u.coordinate == coordinate_of(constants.padding_index));
}

// `counts` is true for one invocation of a unit: the one that counts what lies outside a table.
Unit unit_of(uint index, uint batch_group, bool counts)
{
    uint per_group = is_shared() ? ENCODE_BATCH : 1u;
    Unit u;
    u.first_b = batch_group * per_group;
    u.end_b = min(u.first_b + per_group, push.batch);
    u.l = index;
    u.pixels = 1u;
    u.encoded = true;
    u.factor = 1.0;
    u.inside = u.first_b < push.batch;
    uint b = min(u.first_b, push.batch - 1u);
    Lengths n = lengths_of(b, false, 0, counts && u.inside && index == 0u);
    if (!IMAGE)
        u.inside = u.inside && int(index) < n.q;
    if (GRID)
        place_on_grid(u, index);
    else
        place_at_position(u, position_q(b, min(index, uint(max(n.q, 1)) - 1u), n.q_offset),
                          counts && (u.first_b == 0u || !is_shared()));
    return u;
}

// ---- output

vec4 load_x(uint e, uint n)
{
    if (ALIGNED != 0u)
        return LOAD4(x)(e);
    vec4 v = vec4(0.0);
    for (uint i = 0u; i < n; i++)
        v[i] = x_load(e + i);
    return v;
}

// Two runs of PE: n channels of a row from `channel` on, or n pixels of one channel.
struct Runs {
    uint channel[2];
    uint n[2];
    vec4 pe[2];
};

// One place for all that is written: what is inlined often compiles slowly.
void put(Unit u, Runs runs)
{
    for (uint i = 0u; i < 2u * (u.end_b - u.first_b); i++) {
        bool second = (i & 1u) != 0u;
        uint b = u.first_b + (i >> 1);
        uint channel = second ? runs.channel[1] : runs.channel[0];
        uint n = second ? runs.n[1] : runs.n[0];
        uint h = IMAGE ? channel : 0u;
        uint l = IMAGE ? u.y : u.l;
        uint d = IMAGE ? u.x : channel;
        vec4 sum = u.encoded ? constants.pe_scale * (second ? runs.pe[1] : runs.pe[0]) : vec4(0.0);
        if (n > 0u) {
            if (has_view(VIEW_X))
                sum = fma(vec4(constants.x_scale), load_x(x_at(b, h, l) + d, n), sum);
            if (ALIGNED != 0u)
                STORE4(y)(y_at(b, h, l) + d, sum);
            else
                y_store4(y_at(b, h, l) + d, sum, n);
        }
    }
}

// ---- sinusoids

// {sum up to the pixel and with it, total} of the valid pixels of its row (by columns) or column.
uvec2 count_valid(uint b, bool by_columns, uint y, uint x)
{
    uint side = by_columns ? constants.grid_width : constants.grid_height;
    uvec2 count = uvec2(0u);
    for (uint i = 0u; i < side; i++) {
        uint e = valid_at(0u, b, by_columns ? y : i) + (by_columns ? i : x);
        uint one = valid_word(e) != 0u ? 1u : 0u;
        count.x += i <= (by_columns ? x : y) ? one : 0u;
        count.y += one;
    }
    return count;
}

uvec3 coordinate_at(Unit u, bool by_columns, uint pixel)
{
    if (!GRID)
        return u.coordinate;
    uint x = min(u.x + pixel, constants.grid_width - 1u);
    if (has_view(VIEW_VALID)) {
        uvec2 count = count_valid(u.first_b, by_columns, u.y, x);
        return flag(ENCODE_FLAG_NORMALIZE) ? normalized_coordinate(count.x, count.y)
                                           : uvec3(0u, count.x, 0u);
    }
    uvec3 start = uvec3(constants.start_fraction, constants.start_low, constants.start_high);
    return add_coordinates(uvec3(0u, by_columns ? x : u.y, 0u), start);
}

// Channels of a run, cut where the encoding ends.
uint cut(uint channel, uint n)
{
    return min(n, max(constants.encoded_channels, channel) - channel);
}

Runs runs_of_angles(Unit u, uint axis, uint first, vec4 s, vec4 c)
{
    uint n = min(ANGLES, constants.angles - first);
    uint step = constants.channel_step;
    uint sine = (axis == 0u ? constants.sine_first : constants.sine_second) + step * first;
    uint cosine = (axis == 0u ? constants.cosine_first : constants.cosine_second) + step * first;
    Runs runs = Runs(uint[2](sine, cosine), uint[2](cut(sine, n), cut(cosine, n)), vec4[2](s, c));
    if (IMAGE) {
        runs.n[0] *= u.pixels;
        runs.n[1] *= u.pixels;
    } else if (step == 2u) {
        runs.channel[1] = sine + 4u;
        runs.n[0] = cut(sine, min(2u * n, 4u));
        runs.n[1] = cut(sine + 4u, 2u * max(n, 2u) - 4u);
        runs.pe[0] = vec4(s.x, c.x, s.y, c.y);
        runs.pe[1] = vec4(s.z, c.z, s.w, c.w);
    }
    return runs;
}

// Sines and cosines of four angles from `first` on at one coordinate, or of one at four.
Runs angles_at(Unit u, uint axis, uint first, Turns turns, uvec3 at[4])
{
    vec4 s, c;
    // No unroll attribute here: SwiftShader would not finish compiling what follows from it.
    for (uint i = 0u; i < 4u; i++) {
        vec2 cs = cos_sin_of_phase(phase_at(IMAGE ? at[i] : at[0], turns.of[IMAGE ? 0u : i]));
        c[i] = cs.x;
        s[i] = cs.y;
    }
    return runs_of_angles(u, axis, first, s, c);
}

// ---- tables

uint table_row(Unit u, uint pixel)
{
    return GRID ? u.y * constants.grid_width + u.x + pixel : u.row;
}

float table_value(Unit u, uint pixel, uint channel)
{
    if ((ENCODING & ENCODE_SUM) != 0u)
        return table_load(table_at(0u, 0u, u.y) + channel) +
               column_table_load(column_table_at(0u, 0u, u.x + pixel) + channel);
    if ((ENCODING & ENCODE_CONCAT) == 0u)
        return table_load(table_at(0u, 0u, table_row(u, pixel)) + channel);
    bool second = channel >= constants.half_channels;
    uint c = second ? channel - constants.half_channels : channel;
    return second != flag(ENCODE_FLAG_COLUMN_FIRST)
               ? column_table_load(column_table_at(0u, 0u, u.x + pixel) + c)
               : table_load(table_at(0u, 0u, u.y) + c);
}

vec4 table_values_aligned(Unit u, uint channel)
{
    if ((ENCODING & ENCODE_SUM) != 0u)
        return LOAD4(table)(table_at(0u, 0u, u.y) + channel) +
               LOAD4(column_table)(column_table_at(0u, 0u, u.x) + channel);
    if ((ENCODING & ENCODE_CONCAT) == 0u)
        return LOAD4(table)(table_at(0u, 0u, table_row(u, 0u)) + channel);
    bool second = channel >= constants.half_channels;
    uint c = second ? channel - constants.half_channels : channel;
    return second != flag(ENCODE_FLAG_COLUMN_FIRST)
               ? LOAD4(column_table)(column_table_at(0u, 0u, u.x) + c)
               : LOAD4(table)(table_at(0u, 0u, u.y) + c);
}

// n channels from `channel` on, or n pixels of one.
vec4 table_values(Unit u, uint channel, uint n)
{
    vec4 v = vec4(0.0);
    if (ALIGNED != 0u && !IMAGE)
        return table_values_aligned(u, channel);
    for (uint i = 0u; i < n; i++)
        v[i] = table_value(u, IMAGE ? i : 0u, IMAGE ? channel : channel + i);
    return v;
}

// ---- parts

Runs channels_from(Unit u, uint first)
{
    Runs runs;
    for (uint i = 0u; i < 2u; i++) {
        uint channel = first + i * (CHANNELS / 2u);
        uint left = max(constants.head_dim, channel) - channel;
        uint n = IMAGE ? min(left, 1u) * u.pixels : min(left, 4u);
        vec4 pe = vec4(0.0);
        if ((ENCODING & ENCODE_TABLE) != 0u && u.encoded && n > 0u)
            pe = table_values(u, channel, n);
        if ((ENCODING & ENCODE_NORMALIZE) != 0u)
            pe *= u.factor;
        runs.channel[i] = channel;
        runs.n[i] = n;
        runs.pe[i] = pe;
    }
    return runs;
}

Runs offset_of(Unit u)
{
    int dy = int(u.y) - int(constants.grid_height / 2u);
    int dx = int(u.x) - int(constants.grid_width / 2u);
    vec4 c = vec4(offset_coordinate(0u, dy), offset_coordinate(1u, dx), 0.0, 0.0);
    return Runs(uint[2](0u, 0u), uint[2](2u, 0u), vec4[2](c, c));
}

// A part of a row or of pixels: angles of an axis, or channels without.
struct Part {
    bool has_angles;
    uint axis;
    uint first, end; // angles, or the first channel and one more
};

Part part_of(uint part)
{
    const bool SINUSOID = (ENCODING & ENCODE_SINUSOID) != 0u;
    uint of_angles = constants.axis_parts * ((ENCODING & ENCODE_TWO_AXES) != 0u ? 2u : 1u);
    uint run = constants.axis_run * ANGLES;
    Part p;
    p.has_angles = SINUSOID && part < of_angles;
    p.axis = p.has_angles ? part / constants.axis_parts : 0u;
    p.first = (SINUSOID ? constants.encoded_channels - of_angles * CHANNELS : 0u) + part * CHANNELS;
    p.end = p.first + 1u;
    if (p.has_angles) {
        p.first = part % constants.axis_parts * run;
        p.end = min(p.first + run, constants.angles);
    }
    return p;
}

// `turns`: of the part's first angles.
void encode_part(Unit u, Part p, Turns turns)
{
    uvec3 at[4];
    if (p.has_angles) {
        bool by_columns = (p.axis == 0u) == flag(ENCODE_FLAG_COLUMN_FIRST);
        for (uint i = 0u; i < (IMAGE ? 4u : 1u); i++)
            at[i] = coordinate_at(u, by_columns, i);
    }
    for (uint i = p.first; i < p.end; i += ANGLES) {
        if (i > p.first)
            turns = turns_from(i);
        put(u, p.has_angles                          ? angles_at(u, p.axis, i, turns, at)
               : (ENCODING & ENCODE_OFFSETS) != 0u ? offset_of(u)
                                                   : channels_from(u, i));
    }
}

// The first unit, the batch group and the part of an invocation; those of a work group for rows that
// have one.
void place(out uint unit, out uint batch_group, out uint part)
{
    uint group = group_id();
    uint id = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    bool by_group = (ENCODING & ENCODE_NORMALIZE) != 0u;
    // What lies side by side in memory is done side by side.
    uint units = (unit_count() + ROWS - 1u) / ROWS;
    uint parts = by_group ? 1u : constants.parts;
    uint at = by_group ? group : id;
    uint inner = IMAGE ? units : parts;
    uint outer = IMAGE ? parts : units;
    unit = ROWS * (IMAGE ? at % inner : at / inner % outer);
    part = by_group ? gl_LocalInvocationID.x : IMAGE ? at / inner % outer : at % inner;
    batch_group = at / inner / outer;
}

// 1 / length of the unit's row of TABLE, by the whole work group.
float row_factor(Unit u)
{
    uint lane = gl_LocalInvocationID.x;
    float sum = 0.0;
    uint e = table_at(0u, 0u, u.row);
    for (uint channel = lane; channel < constants.head_dim; channel += ENCODE_INVOCATIONS) {
        float v = table_load(e + channel);
        sum += v * v;
    }
    squares[lane] = sum;
    barrier();
    for (uint step = ENCODE_INVOCATIONS / 2u; step > 0u; step /= 2u) {
        if (lane < step)
            squares[lane] += squares[lane + step];
        barrier();
    }
    return 1.0 / max(sqrt(squares[0]), 1.0e-12);
}

void main()
{
    uint unit, batch_group, part;
    place(unit, batch_group, part);
    Part p = part_of(part);
    Turns turns;
    if (p.has_angles)
        turns = turns_from(p.first);
    [[dont_unroll]] for (uint i = 0u; i < ROWS; i++) {
        Unit u = unit_of(unit + i, batch_group, part == 0u);
        uint end = part + 1u;
        if ((ENCODING & ENCODE_NORMALIZE) != 0u) {
            u.factor = row_factor(u);
            end = constants.parts;
        }
        for (uint n = part; n < end && u.inside; n += ENCODE_INVOCATIONS)
            encode_part(u, n == part ? p : part_of(n), turns);
    }
}
