/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The partitions of a header. The sizes lie before the checksum of the header and the names behind
 * it, so each name is checked by its hash. */

#include "store/image/file_header.h"

#include "port/assert.h"
#include "store/siphash.h"

#include <string.h>

#define PAGE ((size_t)4096)

uint64_t weir_partition_name_hash(const char *name)
{
    const weir_secret key = {0, 0}; /* names are no secret, and a file's names never change */
    uint64_t hash = weir_siphash(key, name, strlen(name));
    return hash != 0 ? hash : 1;
}

void weir_partitions_set(weir_file_header *h, const weir_store_options *options)
{
    WEIR_ASSERT(options->partitions_len <= WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < options->partitions_len; i++) { /* insertion sort */
        const weir_store_partition *p = &options->partitions[i];
        size_t to = i;
        for (; to > 0 && strcmp(h->partition_names[to - 1], p->name) > 0; to--) {
            memcpy(h->partition_names[to], h->partition_names[to - 1],
                   sizeof h->partition_names[to]);
            h->partitions[to] = h->partitions[to - 1];
        }
        memset(h->partition_names[to], 0, sizeof h->partition_names[to]);
        memcpy(h->partition_names[to], p->name, strlen(p->name));
        h->partitions[to] = (weir_file_partition){.name_hash = weir_partition_name_hash(p->name),
                                                  .table_bytes = p->table_bytes / PAGE * PAGE,
                                                  .large_bytes = p->large_bytes / PAGE * PAGE};
    }
}

bool weir_partitions_sound(const weir_file_header *h)
{
    size_t len = weir_partitions_get(h, NULL);
    for (size_t i = 0; i < WEIR_PARTITIONS_MAX; i++) {
        const char *name = h->partition_names[i];
        if (i >= len && h->partitions[i].name_hash != 0)
            return false;
        if (i < len && (!memchr(name, '\0', WEIR_PARTITION_NAME_MAX + 1) ||
                        h->partitions[i].name_hash != weir_partition_name_hash(name)))
            return false;
        if (i > 0 && i < len && strcmp(h->partition_names[i - 1], name) >= 0)
            return false;
    }
    return true;
}

size_t weir_partitions_get(const weir_file_header *h, weir_image_partition *ret)
{
    size_t len = 0;
    for (; len < WEIR_PARTITIONS_MAX && h->partitions[len].name_hash != 0; len++) {
        const weir_file_partition *p = &h->partitions[len];
        if (!ret)
            continue;
        ret[len] = (weir_image_partition){.name_hash = p->name_hash,
                                          .table_bytes = (size_t)p->table_bytes,
                                          .large_bytes = (size_t)p->large_bytes};
        memcpy(ret[len].name, h->partition_names[len], WEIR_PARTITION_NAME_MAX);
    }
    return len;
}
