/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PARTITIONS_H
#define WEIR_STORE_PARTITIONS_H
/* The partitions of a store as the header of its image describes them: names and sizes, sorted by
 * name, so that the order of the options does not matter. */

#include <weir/weir_store.h>

#include "store/image/file_header.h"

/* A partition of an image. The sizes are multiples of 4 KiB. */
typedef struct weir_image_partition {
    char name[WEIR_PARTITION_NAME_MAX + 1];
    uint64_t name_hash; /* not 0; the same in all files */
    size_t table_bytes, large_bytes;
} weir_image_partition;

/* Hashes a partition's name. A file's header has both, an exported key has only the hash. */
uint64_t weir_partition_name_hash(const char *name);

/* Writes the partitions of the options to a header that has none. Their names are valid and
 * distinct, and there are at most WEIR_PARTITIONS_MAX. */
void weir_partitions_set(weir_file_header *h, const weir_store_options *options);

/* Whether the names of a header belong to its hashes, and its entries are sorted and complete. */
bool weir_partitions_sound(const weir_file_header *h);

/* The number of partitions. With `ret`, writes up to WEIR_PARTITIONS_MAX of them. */
size_t weir_partitions_get(const weir_file_header *h, weir_image_partition *ret);

#endif
