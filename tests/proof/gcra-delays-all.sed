# nodelay delays the requests that it should let pass.
# in src/core/gcra.c
# refuses delay_at @ensures
s/return backlog_ns > undelayed_ns ? backlog_ns - undelayed_ns : 0;/return backlog_ns;/
