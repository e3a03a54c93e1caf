// SPDX-License-Identifier: BSD-2-Clause
module peer

go 1.18

require golang.org/x/time v0.5.0
