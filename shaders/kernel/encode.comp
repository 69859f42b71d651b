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
const bool SINUSOID = (ENCODING & ENCODE_SINUSOID) != 0u;
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

// Tokens of a line of the grid, as rows run through it.
uint line_tokens()
{
    return flag(ENCODE_FLAG_COLUMN_MAJOR) ? constants.grid_height : constants.grid_width;
}

// Of row l: its line of the grid, and its token's place there.
uvec2 cell_of(uint l)
{
    uint token = max(l, constants.prefix_tokens) - constants.prefix_tokens;
    return uvec2(token / line_tokens(), token % line_tokens());
}

// Of the row after one that has a cell.
uvec2 cell_after(uvec2 cell)
{
    bool ends = cell.y + 1u == line_tokens();
    return ends ? uvec2(cell.x + 1u, 0u) : uvec2(cell.x, cell.y + 1u);
}

void place_on_grid(inout Unit u, uint index, uvec2 cell)
{
    if (IMAGE) {
        uint quads = (constants.grid_width + 3u) / 4u;
        u.y = index / quads;
        u.x = index % quads * 4u;
        u.pixels = min(4u, constants.grid_width - u.x);
        return;
    }
    u.encoded = u.l >= constants.prefix_tokens;
    bool by_columns = flag(ENCODE_FLAG_COLUMN_MAJOR);
    u.y = by_columns ? cell.y : cell.x;
    u.x = by_columns ? cell.x : cell.y;
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

// `cell`: on a grid. `counts` is true for one invocation of a unit: the one that counts what lies
// outside a table.
Unit unit_of(uint index, uvec2 cell, uint batch_group, bool counts)
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
        place_on_grid(u, index, cell);
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

// Two runs of a part: channels of a row from `channel` on, or a channel of a unit's pixels.
struct Runs {
    uint channel[2];
    uint n[2]; // channels
};

struct Values {
    vec4 of[2]; // of the runs
};

// Channels of a row, or pixels of a channel, that a run has.
uint elements_of(Unit u, uint n)
{
    return IMAGE ? n * u.pixels : n;
}

void put_run(Unit u, uint b, uint channel, uint n, vec4 pe)
{
    uint h = IMAGE ? channel : 0u;
    uint l = IMAGE ? u.y : u.l;
    uint d = IMAGE ? u.x : channel;
    if (n == 0u)
        return;
    if (has_view(VIEW_X))
        pe = fma(vec4(constants.x_scale), load_x(x_at(b, h, l) + d, n), pe);
    if (ALIGNED != 0u)
        STORE4(y)(y_at(b, h, l) + d, pe);
    else
        y_store4(y_at(b, h, l) + d, pe, n);
}

void put(Unit u, Runs runs, Values pe)
{
    uint b = u.first_b;
    do { // A loop with a test before it costs a software device a mask of lanes.
        put_run(u, b, runs.channel[0], elements_of(u, runs.n[0]), pe.of[0]);
        put_run(u, b, runs.channel[1], elements_of(u, runs.n[1]), pe.of[1]);
        b++;
    } while (b < u.end_b);
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

Runs runs_of_angles(uint axis, uint first)
{
    uint n = min(ANGLES, constants.angles - first);
    uint step = constants.channel_step;
    uint sine = (axis == 0u ? constants.sine_first : constants.sine_second) + step * first;
    uint cosine = (axis == 0u ? constants.cosine_first : constants.cosine_second) + step * first;
    if (!IMAGE && step == 2u)
        return Runs(uint[2](sine, sine + 4u), uint[2](cut(sine, min(2u * n, 4u)),
                                                      cut(sine + 4u, 2u * max(n, 2u) - 4u)));
    return Runs(uint[2](sine, cosine), uint[2](cut(sine, n), cut(cosine, n)));
}

// Sines and cosines of a part's angles at one coordinate, or of one at four.
Values sinusoids_at(Turns turns, uvec3 at[4])
{
    vec4 s, c;
    // No unroll attribute here: SwiftShader would not finish compiling what follows from it.
    for (uint i = 0u; i < 4u; i++) {
        vec2 cs = cos_sin_of_phase(phase_at(IMAGE ? at[i] : at[0], turns.of[IMAGE ? 0u : i]));
        c[i] = cs.x;
        s[i] = cs.y;
    }
    bool in_turn = !IMAGE && constants.channel_step == 2u;
    vec4 low = vec4(s.x, c.x, s.y, c.y);
    vec4 high = vec4(s.z, c.z, s.w, c.w);
    return Values(vec4[2](mix(s, low, bvec4(in_turn)), mix(c, high, bvec4(in_turn))));
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

Values table_values_of(Unit u, Runs runs)
{
    Values pe = Values(vec4[2](vec4(0.0), vec4(0.0)));
    for (uint i = 0u; i < 2u; i++) {
        uint n = elements_of(u, runs.n[i]);
        if (u.encoded && n > 0u)
            pe.of[i] = table_values(u, runs.channel[i], n);
        if ((ENCODING & ENCODE_NORMALIZE) != 0u)
            pe.of[i] *= u.factor;
    }
    return pe;
}

Values offset_of(Unit u)
{
    int dy = int(u.y) - int(constants.grid_height / 2u);
    int dx = int(u.x) - int(constants.grid_width / 2u);
    vec4 c = vec4(offset_coordinate(0u, dy), offset_coordinate(1u, dx), 0.0, 0.0);
    return Values(vec4[2](c, c));
}

// ---- parts

// A part of a row or of pixels: angles of an axis, or channels without.
struct Part {
    bool has_angles;
    uint axis;
    uint first, end; // angles, or the first channel and one more
};

Part part_of(uint part)
{
    uint of_angles = constants.axis_parts * ((ENCODING & ENCODE_TWO_AXES) != 0u ? 2u : 1u);
    uint run = constants.axis_run * ANGLES;
    Part p;
    p.has_angles = SINUSOID && part < of_angles;
    p.axis = p.has_angles && part >= constants.axis_parts ? 1u : 0u;
    p.first = (SINUSOID ? constants.encoded_channels - of_angles * CHANNELS : 0u) + part * CHANNELS;
    p.end = p.first + 1u;
    if (p.has_angles) {
        p.first = (part - p.axis * constants.axis_parts) * run;
        p.end = min(p.first + run, constants.angles);
    }
    return p;
}

// What a part's rows share, from an angle or channel of it on.
struct Common {
    Runs runs;
    Turns turns;
};

Common common_of(Part p, uint first)
{
    Common s;
    if (SINUSOID)
        s.turns = turns_from(first);
    if (p.has_angles) {
        s.runs = runs_of_angles(p.axis, first);
        return s;
    }
    for (uint i = 0u; i < 2u; i++) {
        uint channel = first + i * (CHANNELS / 2u);
        s.runs.channel[i] = channel;
        s.runs.n[i] = min(max(constants.head_dim, channel) - channel, IMAGE ? 1u : 4u);
    }
    return s;
}

Values values_of(Unit u, Common with, uvec3 at[4])
{
    if (SINUSOID)
        return sinusoids_at(with.turns, at);
    if ((ENCODING & ENCODE_OFFSETS) != 0u)
        return offset_of(u);
    return table_values_of(u, with.runs);
}

// `with`: of the part's first angles or channels.
void encode_part(Unit u, Part p, Common with)
{
    uvec3 at[4];
    if (SINUSOID) {
        bool by_columns = (p.axis == 0u) == flag(ENCODE_FLAG_COLUMN_FIRST);
        for (uint i = 0u; i < (IMAGE ? 4u : 1u); i++)
            at[i] = coordinate_at(u, by_columns, i);
    }
    bool encoded = u.encoded && (!SINUSOID || p.has_angles);
    uint i = p.first;
    do {
        if (i > p.first)
            with = common_of(p, i);
        Values pe = values_of(u, with, at);
        for (uint run = 0u; run < 2u; run++)
            pe.of[run] = encoded ? constants.pe_scale * pe.of[run] : vec4(0.0);
        put(u, with.runs, pe);
        i += ANGLES;
    } while (has_view(VIEW_VALID) && i < p.end); // Without, a part is one run of angles.
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
    uint line = at / inner;
    uint in_line = at - line * inner;
    batch_group = line / outer;
    line -= batch_group * outer;
    unit = ROWS * (IMAGE ? in_line : line);
    part = by_group ? gl_LocalInvocationID.x : IMAGE ? line : in_line;
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
    Common with = common_of(p, p.first);
    uvec2 cell = GRID && !IMAGE ? cell_of(unit) : uvec2(0u);
    [[dont_unroll]] for (uint i = 0u; i < ROWS; i++) {
        Unit u = unit_of(unit + i, cell, batch_group, part == 0u);
        if (GRID && u.encoded)
            cell = cell_after(cell); // divisions cost a software device more than sines
        if ((ENCODING & ENCODE_NORMALIZE) != 0u) {
            u.factor = row_factor(u);
            for (uint n = part; n < constants.parts && u.inside; n += ENCODE_INVOCATIONS) {
                Part other = part_of(n);
                encode_part(u, other, common_of(other, other.first));
            }
        } else if (u.inside) {
            encode_part(u, p, with);
        }
    }
}
