# A block that is forgotten still doubles the next one.
# in src/core/block.c
# refuses weir_block_begin length
s/if (now_ns - end_of(state) < memory_ns)/if (memory_ns > 0)/
