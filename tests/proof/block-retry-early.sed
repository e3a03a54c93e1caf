# retry_after is one nanosecond too short: the key is still blocked then.
# in src/core/block.c
# refuses weir_block_check retry
s/ret->never ? INT64_MAX : left_ns;/ret->never ? INT64_MAX : left_ns - (left_ns > 0);/
