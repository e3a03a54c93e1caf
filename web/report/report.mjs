// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// The report of `weir replay --html`.

import { el } from "../playground/dom.mjs";

document.querySelector("main").append(el("h1", { text: "Report" }));
