// Where the logits of unfused attention lie in WORKSPACE.

// First logit of row a, which is in the block of rows that the dispatch covers. `first` is
// WORKSPACE's first element; `entry` counts batch entries, or their windows.
uint workspace_row(uint first, uint entry, uint h, uint a)
{
    return first + ((entry * constants.heads + h) * push.row_count + (a - push.first_row)) *
                       uint(push.max_k_length);
}
