# remaining is rounded up.
# in src/core/gcra.c
# refuses remaining_at @ensures
s/(capacity_ns - backlog_ns) \/ interval_ns/(capacity_ns - backlog_ns + interval_ns - 1) \/ interval_ns/
