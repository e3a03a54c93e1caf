// SPDX-License-Identifier: BSD-2-Clause
//! What the peers in Rust share: the requests, and the median of rounds.

use std::time::Instant;

const KEYS: usize = 1_000_000;
const ROUNDS: usize = 5;

/// Millions of requests a second. `allows` takes one unit for a key; all are to be allowed.
fn median(requests: &[String], mut allows: impl FnMut(&String) -> bool) -> f64 {
    let mut figures: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            let allowed = requests.iter().filter(|key| allows(key)).count();
            let took = began.elapsed().as_secs_f64();
            assert_eq!(allowed, requests.len());
            requests.len() as f64 / took / 1e6
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[ROUNDS / 2]
}

/// Charges every key once, and measures the requests; then so many for one key alone.
pub fn run(mut allows: impl FnMut(&String) -> bool) {
    let path = std::env::args().nth(1).expect("usage: peer REQUESTS");
    let text = std::fs::read_to_string(path).expect("no requests");
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let (keys, requests) = lines.split_at(KEYS);
    for key in keys {
        allows(key);
    }
    let many = median(requests, &mut allows);
    let hot = vec!["one-hot-key-of-all".to_string(); requests.len()];
    let one = median(&hot, &mut allows);
    println!("{{\"hot\": {one:.4}, \"1M\": {many:.4}}}");
}
