# A request that a block denies extends the block.
# in src/core/block.c
# refuses weir_block_check @assigns
/^    ret->limit = b->limit;/s/^/    if (left_ns > 0) ((uint64_t *)state)[0] += (uint64_t)b->period_ns;\n/
