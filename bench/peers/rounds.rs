// SPDX-License-Identifier: BSD-2-Clause
//! Shared code of the peers in Rust: reads the requests and reports the median of several rounds.

const KEYS: usize = 1_000_000;
const ROUNDS: usize = 5;

extern "C" {
    fn clock_gettime(clock: i32, ret: *mut [i64; 2]) -> i32;
}

/// CPU time, which other programs on the machine do not affect.
fn seconds() -> f64 {
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut t = [0; 2]; // a timespec of a 64-bit Linux
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t[0] as f64 + t[1] as f64 / 1e9
}

/// Returns millions of requests a second. `allows` takes one unit for a key and must allow it.
fn median(requests: &[String], mut allows: impl FnMut(&String) -> bool) -> f64 {
    let mut figures: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = seconds();
            let allowed = requests.iter().filter(|key| allows(key)).count();
            let took = seconds() - began;
            assert_eq!(allowed, requests.len());
            requests.len() as f64 / took / 1e6
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[ROUNDS / 2]
}

/// Charges every key once, then measures the requests, then as many requests for one key.
pub fn run(mut allows: impl FnMut(&String) -> bool) {
    let path = std::env::args().nth(1).expect("usage: peer REQUESTS");
    let text = std::fs::read_to_string(path).expect("cannot read the requests");
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
