// SPDX-License-Identifier: BSD-2-Clause
//! throttlecrab's library with its AdaptiveStore, allocated for all keys at the start. The clock is
//! fixed, as for weir.

#[path = "../../rounds.rs"]
mod rounds;

use std::time::SystemTime;
use throttlecrab::{AdaptiveStore, RateLimiter};

const BILLION: i64 = 1_000_000_000;

fn main() {
    let store = AdaptiveStore::builder().capacity(2_000_000).build();
    let mut limiter = RateLimiter::new(store);
    let now = SystemTime::now();
    rounds::run(|key| {
        let answer = limiter.rate_limit(key, BILLION, BILLION, 1, 1, now);
        std::hint::black_box(answer).unwrap().0
    });
}
