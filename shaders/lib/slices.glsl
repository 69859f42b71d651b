// Keys of a record cut into slices of push.slice_keys, aligned to key 0, a work group each. Where
// there are several a row of each goes to WORKSPACE as {O, m, s}, DV + 2 floats, slices of a row side
// by side: O not divided by the sum s of the weights, m the largest logit times log2(e), LOWEST where
// the slice has no visible key. kernel/combine.comp makes one of them.
//
// Wants: lib/io.glsl, lib/position.glsl.

// First element of a row's slice.
uint slice_at(uint first, uint b, uint h, uint a, uint slice)
{
    uint row = (b * constants.heads + h) * uint(push.max_q_length) + a;
    return first + (row * push.slices + slice) * (constants.value_dim + 2u);
}

int first_key_of(uint slice)
{
    return push.slices == 1u ? 0 : int(slice * push.slice_keys);
}

// What a slice leaves of a range of keys; it starts at first_block_from(range, first_key_of(slice),
// ..).
KeyRange cut_range(KeyRange range, uint slice)
{
    if (push.slices != 1u)
        range.end = min(range.end, first_key_of(slice) + int(push.slice_keys));
    return range;
}
