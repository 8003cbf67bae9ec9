# What the benches have in common. Sourced by them; `work` is a folder of their own, `rounds` how often each thing is measured.
#
# BROKER_BENCH_PROGRAMS=FOLDER measures programs that were built before, such as those of another version. BROKER_BENCH_SCALE=0.01 makes
# a hundredth of the records and jobs: to try a bench, not to measure.

seed=1
server=
server_options=()

# scaled NUMBER
scaled() { awk -v number="$1" -v scale="${BROKER_BENCH_SCALE:-1}" 'BEGIN { scaled = int(number * scale + 0.5); print scaled < 1 ? 1 : scaled }'; }

# build_programs PRODUCT...: builds them for release, and sets `programs` to their folder.
build_programs() {
    programs=${BROKER_BENCH_PROGRAMS:-}
    if [ -n "$programs" ]; then return; fi
    BROKER_PROGRAMS="$*" swift build -c release
    programs=$(swift build -c release --show-bin-path)
}

# --- The server

# start_server MODEL: with the store that is there, and with the options in `server_options`.
start_server() {
    rm -f "$work/ready"
    "$programs/brokerd" --model "$1" --store "$work/store.sqlite" --socket "$work/broker.sock" \
        --log-level warning "${server_options[@]}" >"$work/ready" 3>&- &
    server=$!
    until [ -s "$work/ready" ]; do
        kill -0 "$server"
        sleep 0.01
    done
}

# new_server MODEL: with a new store.
new_server() {
    rm -rf "$work"/store.sqlite*
    start_server "$1"
}

# serve RECORD-OPTION...: a new server whose model is that of such records.
serve() {
    "$programs/brokerload" model "$@" >"$work/model.json"
    new_server "$work/model.json"
}

stop_server() { end_server -TERM; }
kill_server() { end_server -KILL; }

end_server() {
    if [ -z "$server" ]; then return; fi
    kill "$1" "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

broker() {
    local command=$1
    shift
    "$programs/broker" "$command" --socket "$work/broker.sock" "$@"
}

# --- Runs, whose reports go to files of `work`, a line of JSON each

section() { printf '\n== %s (at %d s)\n' "$1" "$SECONDS"; }

# load NAME OPTION...: a run against the server, whose report goes to the file of that name.
load() {
    local name=$1
    shift
    "$programs/brokerload" run --socket "$work/broker.sock" --seed "$seed" --in-flight 8 "$@" >"$work/last"
    cat "$work/last" >>"$work/$name"
    jq -r --arg name "$name" '"\($name): \(.recordsPerSecond | floor) records/s"' "$work/last"
}

# load_new NAME SIZE-OPTIONS RECORD-OPTION...: the same against a server of its own.
load_new() {
    local name=$1 jobs=$3 records=$5
    shift 5
    serve "$@"
    load "$name" --jobs "$jobs" --records "$records" "$@"
    stop_server
}

# baseline NAME OPTION...: its passes go to the files NAME.1, NAME.2, …
baseline() {
    local name=$1 pass=0 line
    shift
    "$programs/brokerload" baseline --store "$work/baseline.sqlite" --seed "$seed" "$@" >"$work/last"
    while IFS= read -r line; do
        pass=$((pass + 1))
        printf '%s\n' "$line" | tee -a "$work/$name.$pass" |
            jq -r --arg name "$name.$pass" '"\($name): \((.recordsPerSecond // .jobsPerSecond) | floor) a second"'
    done <"$work/last"
}

# copy_alone NAME: the records that Broker has just loaded, from a table in memory.
copy_alone() {
    python3 Tests/Bench/copied_rows.py "$work/store.sqlite" "$work/copy.sqlite" | tee -a "$work/$1"
    rm -f "$work"/copy.sqlite*
}

# redis_alone NAME COMMANDS IN_FLIGHT: SETs of so many records on one connection, so many of them without an answer. The server syncs
# each before it answers.
redis_alone() {
    local process
    "$programs/brokerload" records --jobs 1 --records "$2" >"$work/redis.json"
    rm -rf "$work/redis"
    mkdir "$work/redis"
    redis-server --port 0 --unixsocket "$work/redis/socket" --dir "$work/redis" --save '' --appendonly yes --appendfsync always \
        --daemonize no >"$work/redis/log" &
    process=$!
    python3 Tests/Bench/redis_sets.py "$work/redis.json" "$work/redis/socket" "$3" | tee -a "$work/$1" || { kill "$process"; return 1; }
    kill "$process"
    wait "$process" 2>/dev/null || true
}

# seconds NAME COMMAND...: adds how long the command took to the file of that name, and shows it.
seconds() {
    local name=$1 begin end
    shift
    begin=$(date +%s.%N)
    "$@" >/dev/null
    end=$(date +%s.%N)
    jq -nc "{seconds: ($end - $begin)}" | tee -a "$work/$name" | jq -r --arg name "$name" '"\($name): \(.seconds) s"'
}

# --- Results. The ratio of a row is how many times as fast Broker is, or as the last run of it that is named.

# median NAME FILTER: the median of what jq's filter makes of each line of a file.
median() { jq -s "map($2) | sort | .[length / 2 | floor]" "$work/$1"; }

# ratio A B: A / B, with two digits.
ratio() { jq -n "($1) / ($2) * 100 | round / 100"; }

# How the table has a number, microseconds and seconds.
whole() { printf '%.0f' "$1"; }
microseconds() { printf '%.0f µs' "$1"; }
as_milliseconds() { jq -nr "($1) / 10 | round / 100 | \"\(.) ms\""; }
whole_milliseconds() { jq -nr "($1) * 1000 | round | \"\(.) ms\""; }
hundredths() { jq -nr "($1) * 100 | round / 100 | \"\(.) s\""; }

# row WHAT BROKER COMPARED-WITH RATIO: a row of the results.
row() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$work/rows"; }

# rate_row WHAT BROKER NAME OTHER: a row of two numbers a second.
rate_row() { row "$1" "$(whole "$2")/s" "${3:+$3 }$(whole "$4")/s" "$(ratio "$2" "$4")"; }

# time_row WHAT FORMAT BROKER NAME OTHER: a row of two times; who takes half the time is twice as fast.
time_row() { row "$1" "$("$2" "$3")" "$4 $("$2" "$5")" "$(ratio "$5" "$3")"; }

# compare_rates WHAT FILE NAME OTHER-FILE: a row of the medians of records a second, compare_jobs of jobs a second, compare_seconds of
# what `seconds` measured.
compare_rates() { rate_row "$1" "$(median "$2" .recordsPerSecond)" "$3" "$(median "$4" .recordsPerSecond)"; }
compare_jobs() { rate_row "$1" "$(median "$2" .jobsPerSecond)" "$3" "$(median "$4" .jobsPerSecond)"; }
compare_seconds() { time_row "$1" whole_milliseconds "$(median "$2" .seconds)" "$3" "$(median "$4" .seconds)"; }
