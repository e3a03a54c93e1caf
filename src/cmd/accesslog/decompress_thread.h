/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_DECOMPRESS_THREAD_H
#define WEIR_CMD_ACCESSLOG_DECOMPRESS_THREAD_H
/* A thread that reads and decompresses a file a few blocks ahead of the reader. Decompressing a log
 * takes about as long as parsing it, so that two threads halve the time. This module does not know
 * lines. */

#include <stddef.h>
#include <stdint.h>

#include "codec/decompress.h"

typedef struct accesslog_decompress_thread accesslog_decompress_thread;

#define ACCESSLOG_DECOMPRESS_HEAD_MAX 65536

/* Starts a thread that decompresses the `len` bytes at `bytes` and then the rest of `fd`. SIGPIPE
 * must be ignored.
 *  bytes  the beginning of the file, which was read to recognise the compression; copied.
 *  len    at most ACCESSLOG_DECOMPRESS_HEAD_MAX.
 * Returns NULL and sets errno if there is no memory, no thread, or no file descriptor. */
accesslog_decompress_thread *accesslog_decompress_start(int fd, const char *bytes, size_t len);

/* Reads 1..max decompressed bytes into `buf`. Blocks until there are some.
 *  ret_bytes_read  how many bytes of the compressed file the thread has read; always written.
 *  ret_error       `size` bytes; written if the answer is -1.
 * Returns how many; 0 at the end; -1 if the file cannot be read or is damaged. */
ptrdiff_t accesslog_decompress_read(accesslog_decompress_thread *t, char *buf, size_t max,
                                    int64_t *ret_bytes_read, char *ret_error, size_t size);

/* Ends the thread, also while it waits for input. `fd` stays open. Accepts NULL. */
void accesslog_decompress_stop(accesslog_decompress_thread *t);

#endif
