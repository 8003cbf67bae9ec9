# Three nats-servers and servers of Broker that share a log there: sourced by Tests/Bench/replicas.

declare -a nats=() servers=()
port() { echo $((base + 10 * $1 + $2)); }
base=$((20000 + RANDOM % 20000))
hosts=127.0.0.1:$(port 0 1),127.0.0.1:$(port 1 1),127.0.0.1:$(port 2 1)

start_nats() {
    local routes
    routes="nats://127.0.0.1:$(port 0 2), nats://127.0.0.1:$(port 1 2), nats://127.0.0.1:$(port 2 2)"
    cat >"$work/nats$1.conf" <<END
server_name: n$1
listen: 127.0.0.1:$(port "$1" 1)
max_payload: 17825792
max_pending: 256MB
jetstream { store_dir: "$work/nats$1", sync_interval: always, max_file_store: 20GB }
cluster { name: bench, listen: 127.0.0.1:$(port "$1" 2), routes: [$routes] }
END
    .build/nats/bin/nats-server -c "$work/nats$1.conf" >"$work/nats$1.log" 2>&1 &
    nats[$1]=$!
}

# start_replica NUMBER OPTION...
start_replica() {
    local number=$1
    shift
    rm -f "$work/ready$number"
    "$programs/brokerd" --model "$work/model.json" --store "$work/store$number.sqlite" --socket "$work/broker$number.sock" \
        --log-level error "$@" >"$work/ready$number" &
    servers[number]=$!
    until [ -s "$work/ready$number" ]; do
        kill -0 "${servers[number]}"
        sleep 0.01
    done
}

stop_servers() {
    kill "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
    servers=()
    rm -rf "$work"/store*
}

# share COUNT: that many servers with a new log.
logs=0
share() {
    local number
    logs=$((logs + 1))
    log=nats://$hosts/bench-$logs
    "$programs/broker" log create "$log" >/dev/null
    for ((number = 0; number < $1; number++)); do start_replica "$number" --log "$log" --replica "r$number"; done
}

# processor_time PID...: of all of them, in microseconds.
processor_time() {
    local ticks=0 pid
    for pid in "$@"; do ticks=$((ticks + $(sed 's/.*) //' "/proc/$pid/stat" | awk '{print $12 + $13}'))); done
    echo $((ticks * (1000000 / $(getconf CLK_TCK))))
}
