// Query rows of a work group, and the softmax constants that all attention kernels share.
//
// K and V are read once for all query heads of their group: row t of a (batch, kv head) is query
// row a = t / G of head kv_head * G + t % G, G = heads / kv_heads, so that a tile of rows covers
// few a and the causal skip stays sharp.

// No -inf and no NaN on plain devices: masking is by select, "nothing yet" is a large negative
// number.
#define LOWEST -3.0e38
#define HIDDEN_BELOW -1.0e38 // no visible logit is below this

// sum + x . y, a multiply-add a channel: of sum + dot(x, y) some compilers make a multiplication, three
// multiply-adds and an addition.
float add_dot(float sum, vec4 x, vec4 y)
{
    return fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, sum))));
}

struct Tile {
    uint b;
    uint kv_head;
    uint first; // row t of the tile
};

Tile tile_of(uint id, uint rows_per_group)
{
    uint rest = id / push.tiles;
    return Tile(rest / constants.kv_heads, rest % constants.kv_heads,
                (id % push.tiles) * rows_per_group);
}

// A q_offset that is a position, for the rotation of Q, is not negative.
int lowest_offset(uint pairing)
{
    return pairing != PAIRING_NONE && !has_view(VIEW_POSITIONS_Q) ? 0 : -RHUMB_MAX_LENGTH;
}

uint heads_per_kv_head()
{
    return constants.heads / constants.kv_heads;
}

uint row_index(uint t)
{
    return t / heads_per_kv_head();
}

uint row_head(Tile tile, uint t)
{
    uint g = heads_per_kv_head();
    return tile.kv_head * g + t % g;
}
