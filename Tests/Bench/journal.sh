# Jobs of one record with a journal, and on a schedule: sourced by Tests/Bench/run.

section 'One record a job with --journal, and how soon it is accepted, beside none and beside Redis'
for _ in $(seq "$rounds"); do
    for in_flight in 64 256; do
        serve
        load "plain.$in_flight" --jobs "$small_jobs" --records 1 --in-flight "$in_flight"
        stop_server
        server_options=(--journal)
        serve
        load "journal.$in_flight" --jobs "$small_jobs" --records 1 --in-flight "$in_flight"
        stop_server
        server_options=()
    done
    server_options=(--journal)
    serve
    load journal.1 --jobs "$lone_jobs" --records 1 --in-flight 1 --accepted
    stop_server
    server_options=()
    redis_alone redis.1 "$lone_jobs" 1
done
for in_flight in 64 256; do
    compare_jobs "one-record jobs with --journal, $in_flight in flight" "journal.$in_flight" without "plain.$in_flight"
done
rate_row 'one-record jobs with --journal, 64 in flight' "$(median journal.64 .jobsPerSecond)" \
    Redis "$(median redis.64 .recordsPerSecond)"
time_row 'p50 until accepted, --journal, one in flight' microseconds "$(median journal.1 .latencyMicroseconds.accepted.p50)" \
    Redis "$(median redis.1 '1000000 / .recordsPerSecond')"

section '1,000 jobs a second on a schedule, and as many syncs of four pages without anything else'
for _ in $(seq "$rounds"); do
    serve
    load schedule --rate 1000 --duration "$schedule_seconds" --warm-up 1 --records 1 --in-flight 10000
    stop_server
    python3 Tests/Bench/page_syncs.py "$work/sync" 1000 "$schedule_seconds" | tee -a "$work/syncs"
done
row 'p99.9 at 1,000 jobs a second' "$(as_milliseconds "$(median schedule '.latencyMicroseconds.completed["p99.9"]')")" \
    "sent late $(as_milliseconds "$(median schedule '.lagMicroseconds["p99.9"]')")" ''
row 'p99.9 of 1,000 syncs a second' "$(as_milliseconds "$(median syncs '.["p99.9"]')")" \
    "begun late $(as_milliseconds "$(median syncs .late)")" ''
