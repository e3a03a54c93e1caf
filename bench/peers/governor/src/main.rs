// SPDX-License-Identifier: BSD-2-Clause
//! governor's keyed limiter in its default table, a DashMap. The clock is fixed, as for weir. It returns
//! only whether a request is allowed, not what remains.

#[path = "../../rounds.rs"]
mod rounds;

use governor::clock::FakeRelativeClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;

fn main() {
    let billion = NonZeroU32::new(1_000_000_000).unwrap();
    let limiter = RateLimiter::<_, _, _, NoOpMiddleware<Nanos>>::new(
        Quota::per_second(billion).allow_burst(billion),
        DashMapStateStore::<String>::default(),
        FakeRelativeClock::default(),
    );
    rounds::run(|key| limiter.check_key(key).is_ok());
}
