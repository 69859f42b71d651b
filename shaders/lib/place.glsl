// Where the rows of Q, K, V and O lie: {index of B, index of L} of row a, or of key j, of batch entry b.
//
// Wants: lib/position.glsl.

uvec2 query_place(uint b, uint a)
{
    return uvec2(b, a);
}

uvec2 key_place(uint b, uint j)
{
    return uvec2(b, j);
}
