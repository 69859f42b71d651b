// Maximum over the TILE_LANES lanes of a row group, four rows at a time.
//
// Two forms with the same result, bit for bit: by shared memory on every device, and by subgroup
// shuffles where limits allow (then a row group lies inside one subgroup: its size is a multiple of
// TILE_LANES and invocations are numbered along x). Shuffles, not clustered reductions: fewer
// moves, and a driver is known that accepts clustered operations it does not have and computes
// wrong values.
//
// Wants: REDUCE_GROUPS row groups in the work group. Calls barrier() in the shared form: uniform
// control flow only, and the caller separates two calls by a barrier of its own.
#ifdef RHUMB_SUBGROUP

vec4 max_over_lanes(uint group, uint lane, vec4 v)
{
    v = max(v, subgroupShuffleXor(v, 1u));
    v = max(v, subgroupShuffleXor(v, 2u));
    return max(v, subgroupShuffleXor(v, 4u));
}

#else

shared vec4 reduce_values[TILE_LANES * (REDUCE_GROUPS + 1u)]; // one more group: no bank conflicts

vec4 max_over_lanes(uint group, uint lane, vec4 v)
{
    reduce_values[lane * (REDUCE_GROUPS + 1u) + group] = v;
    barrier();
    vec4 r = reduce_values[group];
    [[unroll]] for (uint i = 1u; i < TILE_LANES; i++)
        r = max(r, reduce_values[i * (REDUCE_GROUPS + 1u) + group]);
    return r;
}

#endif
