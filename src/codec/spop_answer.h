/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_ANSWER_H
#define WEIR_CODEC_SPOP_ANSWER_H
/* The ACK frame that answers a NOTIFY frame: its decisions as variables of HAProxy. */

#include "codec/spop_frame.h"
#include "service/rules/answer.h"
#include "service/service.h"

#define WEIR_SPOP_DECIDED_MAX 16 /* messages of a frame that have a policy */

/* The variables that an ACK frame sets, as bits: `allowed`, `retry_after` and so on, and one for
 * each header field. */
#define WEIR_SPOP_ALL_VARIABLES UINT32_MAX

/* Returns the bit of a variable; 0: there is none of this name. Pure. */
uint32_t weir_spop_variable(const char *name, size_t len);

/* Returns the name of variable i, counted from 0; NULL after the last. Pure. */
const char *weir_spop_variable_name(size_t i);

/* A NOTIFY frame whose requests are decided. */
typedef struct weir_spop_answer {
    uint64_t stream_id, frame_id;
    const weir_request *requests;
    size_t len;         /* 0..WEIR_SPOP_DECIDED_MAX; 0: the frame has no message with a policy */
    const char *error;  /* why a message has no decision; NULL: none */
    bool refused;       /* the message is invalid: the request is denied */
    bool aborted;       /* HAProxy has cancelled it */
    unsigned headers;   /* a set of weir_header_flavour; 0: the default */
    uint32_t variables; /* to set or unset; `allowed` always is */
} weir_spop_answer;

/* Appends an ACK frame. Its variables have the scope `txn`. Variables that are header fields are
 * left out if they do not fit; the others always fit.
 *  frame_max  bytes of a frame, WEIR_SPOP_FRAME_MIN or more.
 * Returns false if the frame has an error and no decision. */
bool weir_spop_put_answer(weir_buffer *out, size_t frame_max, const weir_spop_answer *a,
                          int64_t now_ns);

#endif
