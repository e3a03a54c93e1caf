/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_ANSWER_H
#define WEIR_CODEC_SPOP_ANSWER_H
/* The ACK frame that answers a NOTIFY frame: its decisions as variables of HAProxy. */

#include "codec/spop_frame.h"
#include "service/rules/answer.h"
#include "service/service.h"

#define WEIR_SPOP_DECIDED_MAX 16 /* messages of a frame that have a policy */

/* A NOTIFY frame whose requests are decided. */
typedef struct weir_spop_answer {
    uint64_t stream_id, frame_id;
    const weir_request *requests;
    size_t len;        /* 0..WEIR_SPOP_DECIDED_MAX; 0: the frame has no message with a policy */
    const char *error; /* a message that could not be read as a request; NULL: none */
    bool refused;      /* `error` is the fault of the request: it is denied */
    bool aborted;      /* HAProxy has cancelled it */
    unsigned headers;  /* a set of weir_header_flavour; 0: the default */
} weir_spop_answer;

/* Appends an ACK frame. Its variables have the scope `txn`. Variables that are header fields are
 * left out if they do not fit; the others always fit.
 *  frame_max  bytes of a frame, WEIR_SPOP_FRAME_MIN or more.
 * Returns whether there was a decision, or nothing to decide. */
bool weir_spop_put_answer(weir_buffer *out, size_t frame_max, const weir_spop_answer *a,
                          int64_t now_ns);

#endif
