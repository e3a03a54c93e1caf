/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_READER_H
#define WEIR_ACCESSLOG_READER_H
/* The requests of one log file, put in order by a reorder buffer. Reports the lines that it cannot
 * read. Each file has its own reader, because each may have another format. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "accesslog/accesslog.h"
#include "accesslog/formats/logline.h"
#include "accesslog/messages.h"
#include "accesslog/options.h"
#include "port/text.h"

/* ---- lines ----------------------------------------------------------------------------------- */
/* Reads a log line by line from a file or from standard input, in large blocks. Logs compressed
 * with gzip or zstd are recognised by their first bytes, and these programs decompress them. This
 * module does not know what a line means. */

#define ACCESSLOG_LINE_MAX        ((size_t)1 << 20) /* bytes of the longest line, without its LF */
#define ACCESSLOG_INPUT_ERROR_MAX 256

/* Callers may read the fields above "Private". */
typedef struct accesslog_input {
    const char *name; /* for messages: the path, or "<stdin>" */
    int64_t size; /* bytes of the file from its current offset; 0 or -1 if it is no regular file */
    int64_t bytes_read; /* bytes read from the file so far, before decompression */
    uint64_t number;    /* number of the last line returned, from 1 */
    bool empty;         /* no byte has been read so far */
    char error[ACCESSLOG_INPUT_ERROR_MAX]; /* why a read failed */
    /* Private: */
    int file;            /* the log as it is */
    int64_t start;       /* its offset when it was opened; -1 if it has none */
    int fd;              /* its lines: `file`, or the output of `program` */
    const char *program; /* that decompresses it; NULL: it is not compressed, or not known yet */
    pid_t child;         /* the process of `program`, while it runs */
    bool begun, eof;
    bool skipping; /* inside a line that is too long */
    char *buf;
    size_t begin, end; /* the bytes of `buf` that were read and not yet returned */
} accesslog_input;

typedef enum accesslog_input_status {
    ACCESSLOG_INPUT_LINE,
    ACCESSLOG_INPUT_LINE_TOO_LONG, /* a line over ACCESSLOG_LINE_MAX was skipped, and counted */
    ACCESSLOG_INPUT_END,
    ACCESSLOG_INPUT_FAILED /* `error` says why; a partial last line is not returned */
} accesslog_input_status;

/* Opens `path`, which must outlive `ret`. "-" is standard input.
 * Returns false and sets errno on failure, also for a directory. Then there is nothing to close. */
bool accesslog_input_open(accesslog_input *ret, const char *path);

/* Reads the next line.
 *  ret, ret_len  the line without its LF, valid until the next call; written only on
 *                ACCESSLOG_INPUT_LINE. */
accesslog_input_status accesslog_input_next(accesslog_input *in, const char **ret, size_t *ret_len);

/* Accepts a zeroed input. */
void accesslog_input_close(accesslog_input *in);

/* ---- the order of time ----------------------------------------------------------------------- */
/* A reorder buffer: it holds the requests of one log until the log is a given time past them, and
 * returns them by time. Servers write a line when a request ends, so logs are nearly sorted: a new
 * request costs one comparison if it is in order, and O(log n) in any other log.
 *
 * The log's time is the latest time of its requests. Requests more than an hour away from the log's
 * time do not change it, so one wrong line does not let others through early. After 100 of them in
 * a row, all ahead or all behind, the log's time becomes that of the nearest one. The second
 * request of a log may also set the log's time back from the first.
 *
 * This module does not know lines or files. For one thread. */

#define ACCESSLOG_HELD_MAX       ((size_t)1000000)   /* requests that all files hold together */
#define ACCESSLOG_HELD_BYTES_MAX ((size_t)256 << 20) /* of their long keys */

enum { ACCESSLOG_HELD_INLINE = 36 }; /* fits nearly all addresses; the structure has 64 bytes */

/* A request that is held. */
typedef struct accesslog_held {
    int64_t t_ns;
    int64_t cost;
    uint64_t line;
    uint32_t key_len;
    char key[ACCESSLOG_HELD_INLINE]; /* private: the key, or a pointer to a longer one */
} accesslog_held;

_Static_assert(sizeof(accesslog_held) == 64, "a held request has one cache line");

/* All fields are private. */
typedef struct accesslog_reorder {
    int64_t delay_ns;
    int64_t latest_ns; /* the log's time */
    int64_t far_ns;    /* the nearest of the last `far` requests, which were far from it */
    unsigned far;
    bool begun, settled, ended; /* settled: the second request was seen */
    size_t len_max, bytes_max;
    accesslog_held *ring, *heap;
    size_t capacity, heap_capacity; /* 0 or a power of two */
    size_t first, len, heap_len;
    size_t bytes; /* of long keys */
} accesslog_reorder;

/* Makes *r empty. Allocates nothing.
 *  delay_ns   how far the log must be past a request before it is ready, 0..INT64_MAX.
 *  len_max    the most requests held, 1..ACCESSLOG_HELD_MAX. With more, the oldest is ready early.
 *  bytes_max  the same for the bytes of keys longer than ACCESSLOG_HELD_INLINE. */
void accesslog_reorder_init(accesslog_reorder *r, int64_t delay_ns, size_t len_max,
                            size_t bytes_max);
void accesslog_reorder_free(accesslog_reorder *r); /* accepts zeros */

/* Adds a request, and copies its key. Requests of the same time stay in the order of their
 * addition. No request may be ready, see accesslog_reorder_ready().
 *  line  its line number, above those of the requests before.
 * Returns WEIR_OK or WEIR_E_NOMEM; then nothing has changed. */
WEIR_NODISCARD weir_status accesslog_reorder_add(accesslog_reorder *r,
                                                 const weir_log_record *record, uint64_t line);

/* No request will be added any more: all are ready. */
void accesslog_reorder_end(accesslog_reorder *r);

/* How many requests are held. */
size_t accesslog_reorder_len(const accesslog_reorder *r);

/* Returns the earliest request if it is ready, and else NULL. A request is ready if the log's time
 * is at least delay_ns later, if the buffer is full, or after accesslog_reorder_end(). Valid until
 * the next call for *r. */
const accesslog_held *accesslog_reorder_ready(const accesslog_reorder *r);

/* Removes the earliest request. There must be one. */
void accesslog_reorder_remove(accesslog_reorder *r);

/* The key of a held request, with the lifetime of `held`. */
weir_slice accesslog_held_key(const accesslog_held *held);

/* ---- requests -------------------------------------------------------------------------------- */
/* The format of the file. */
typedef struct accesslog_format {
    weir_logline_reader *reader;
    bool doubted;      /* some line could not be read; the fields below describe the first */
    bool key_absent;   /* the line is JSON and lacks only the member that is the key */
    bool json;         /* the line begins with '{' */
    const char *other; /* the format that the line has; NULL: none */
    uint64_t number;   /* its line number */
} accesslog_format;

/* What the readers of a run share. */
typedef struct accesslog_shared {
    const accesslog_options *options;
    const struct accesslog_reader *readers; /* all of them */
    size_t readers_len;
    accesslog_progress_bar progress;
    uint64_t lines;     /* read by all readers */
    uint64_t bad_shown; /* messages printed about single lines */
    int exit_status;    /* after ACCESSLOG_ERROR */
} accesslog_shared;

/* A request of the file. */
typedef struct accesslog_reader_request {
    int64_t t_ns;
    weir_slice key;
    int64_t cost;
    uint64_t line;
} accesslog_reader_request;

/* Callers may read the fields above "Private". */
typedef struct accesslog_reader {
    accesslog_file counts;            /* the source counts the requests */
    accesslog_reader_request request; /* the current one */
    int64_t ahead_ns_max;             /* by how much a line was dated after a later one; 0: never */
    uint64_t ahead_number, behind_number; /* these two lines */
    accesslog_input in;
    accesslog_format format;
    /* Private: */
    accesslog_shared *shared;
    weir_log_record record;
    accesslog_reorder reorder;
    bool header;          /* a line was a comment or had the names of columns */
    bool held;            /* `request` is in `reorder` */
    accesslog_status end; /* ACCESSLOG_REQUEST while there may be more lines */
    int64_t latest_ns;
    uint64_t latest_number; /* the line that set latest_ns */
} accesslog_reader;

/* Opens the file `path`, which must outlive the reader like `shared`. The readers of a run share
 * the limit of held requests.
 * Returns 0, or the exit status after printing an error. */
int accesslog_reader_open(accesslog_reader *r, accesslog_shared *shared, const char *path);
void accesslog_reader_close(accesslog_reader *r); /* accepts zeros */

/* Reads the next request in the order of time into r->request, whose key is valid until the next
 * call. A reader without requests is no error here. */
accesslog_status accesslog_reader_next(accesslog_reader *r);

/* Prints that no line of the file could be read, with a guess at the reason.
 *  prefix  "" or "WARNING: ". */
void accesslog_reader_complain_nothing(const accesslog_reader *r, const char *prefix);

/* Prints warnings: that a skipped line has another format, or that no line has a field of
 * --where. */
void accesslog_reader_note_format(const accesslog_reader *r);

#endif
