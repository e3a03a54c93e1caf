/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_FIGURES_H
#define WEIR_STORE_FIGURES_H
/* Figures of a state beside a decision, for programs that are built with the store. */

#include <weir/weir_store.h>

#include "core/figures.h"

/* Reads the figures of a layer of a key's state, as weir_figures_of(). The arguments are those of
 * weir_store_peek(), and so are the statuses. *ret is written on WEIR_OK. Any thread. */
WEIR_NODISCARD weir_status weir_store_figures(weir_store *s, const weir_policy *p,
                                              uint64_t policy_id, const void *key, size_t key_len,
                                              int64_t now_ns, uint32_t layer, weir_figures *ret);

#endif
