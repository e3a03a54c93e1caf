# A doubled block can be longer than the longest one.
# in src/core/block.c
# refuses weir_block_begin length
s/memory_ns < b->longest_ns - memory_ns ? 2 \* memory_ns : b->longest_ns/2 * memory_ns/
