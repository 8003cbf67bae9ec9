# Jobs of one record: sourced by Tests/Bench/run.

section 'One record a job with ids, each durable before its completion, beside Redis and a loop of group commits'
for in_flight in 64 256; do
    for _ in $(seq "$rounds"); do
        serve
        load "small.$in_flight" --jobs "$small_jobs" --records 1 --in-flight "$in_flight"
        stop_server
        baseline "group.$in_flight" --jobs "$small_jobs" --records 1 --group "$in_flight"
        baseline "ledger.$in_flight" --jobs "$small_jobs" --records 1 --group "$in_flight" --ledger
        redis_alone "redis.$in_flight" "$small_jobs" "$in_flight"
    done
done
for in_flight in 64 256; do
    rate_row "one-record jobs, $in_flight in flight" "$(median "small.$in_flight" .jobsPerSecond)" \
        Redis "$(median "redis.$in_flight" .recordsPerSecond)"
    compare_jobs "one-record jobs, $in_flight in flight" "small.$in_flight" loop "group.$in_flight.1"
    compare_jobs "one-record jobs, $in_flight in flight" "small.$in_flight" 'with a ledger' "ledger.$in_flight.1"
done

section 'One job in flight'
for _ in $(seq "$rounds"); do
    serve
    load one --jobs "$lone_jobs" --records 1 --in-flight 1
    stop_server
    baseline one.loop --jobs "$lone_jobs" --records 1 --group 1
done
time_row 'p50 with one in flight' microseconds "$(median one .latencyMicroseconds.completed.p50)" \
    loop "$(median one.loop.1 .latencyMicroseconds.p50)"
