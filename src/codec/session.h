/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SESSION_H
#define WEIR_CODEC_SESSION_H
/* What a session of any protocol wants next from whoever moves its bytes. */

#include <stdint.h>

typedef enum weir_session_next {
    WEIR_SESSION_READ,  /* it has answered all it has; more bytes, please */
    WEIR_SESSION_AGAIN, /* it stopped because of what `out` holds: send it, then call again */
    WEIR_SESSION_WAIT,  /* send nothing of `out` before until_ns, then send it and call again */
    WEIR_SESSION_ASK,   /* an engine is asked: send `out`, and call again when it has answered, as
                           the session's turn says. A call before that says the same again */
    WEIR_SESSION_CLOSE  /* send `out`, then close */
} weir_session_next;

typedef struct weir_session_step {
    weir_session_next next;
    int64_t until_ns; /* WEIR_SESSION_WAIT only */
} weir_session_step;

#endif
