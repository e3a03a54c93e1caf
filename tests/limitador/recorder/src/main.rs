// SPDX-License-Identifier: BSD-2-Clause
//! Answers each request of the standard input as limitador does, with its library: the status, and
//! with headers also the values of X-RateLimit-Remaining and X-RateLimit-Limit.

use limitador::limit::{Context, Limit, Namespace};
use limitador::RateLimiter;
use std::collections::HashMap;
use std::io::BufRead;

#[derive(serde::Deserialize)]
struct Request {
    verb: String,
    namespace: String,
    values: Vec<HashMap<String, String>>,
    delta: u64,
    headers: bool,
}

fn status(limited: bool) -> &'static str {
    if limited {
        "429"
    } else {
        "200"
    }
}

fn answer(limiter: &RateLimiter, request: Request) -> String {
    let namespace: Namespace = request.namespace.as_str().into();
    let mut context = Context::default();
    context.list_binding("descriptors".to_string(), request.values);
    match request.verb.as_str() {
        "check" => match limiter.is_rate_limited(&namespace, &context, request.delta) {
            Ok(result) => status(result.limited).to_string(),
            Err(_) => "500".to_string(),
        },
        "report" => match limiter.update_counters(&namespace, &context, request.delta) {
            Ok(()) => "200".to_string(),
            Err(_) => "500".to_string(),
        },
        _ => match limiter.check_rate_limited_and_update(
            &namespace,
            &context,
            request.delta,
            request.headers,
        ) {
            Ok(mut result) => {
                let headers = result.response_header();
                match (
                    headers.get("X-RateLimit-Remaining"),
                    headers.get("X-RateLimit-Limit"),
                ) {
                    (Some(remaining), Some(limit)) => {
                        format!("{} {} {}", status(result.limited), remaining, limit)
                    }
                    _ => status(result.limited).to_string(),
                }
            }
            Err(_) => "500".to_string(),
        },
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a limits file");
    let file = std::fs::File::open(path).expect("a limits file");
    let limits: Vec<Limit> = serde_yaml::from_reader(file).expect("limits");
    let limiter = RateLimiter::new(100_000);
    limiter.configure_with(limits).expect("configured");
    for line in std::io::stdin().lock().lines() {
        let request = serde_json::from_str(&line.expect("a line")).expect("a request");
        println!("{}", answer(&limiter, request));
    }
}
