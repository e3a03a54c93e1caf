// SPDX-License-Identifier: BSD-2-Clause
// Charges until it is killed.
import { Limiter } from 'weir';

const limiter = new Limiter('sliding-log 1000000/365d', { url: process.argv[2], memory: 8 << 20 });
limiter.checkSync('a');
process.send('begun');
for (;;) limiter.checkSync('a');
