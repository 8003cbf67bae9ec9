# Records that are applied one after the other: sourced by Tests/Bench/run.

section 'Records that are applied one after the other, beside the baseline; ordered links beside unordered ones'
cat >"$work/special.json" <<'END'
{"entities": {
  "Item": {"identity": "id", "unique": [["code"]],
    "attributes": {"id": "integer64", "name": "string", "price": "double", "code": "string", "size": "integer32"}},
  "Feed": {"identity": "id", "modified": "at", "tombstone": "gone = true",
    "attributes": {"id": "integer64", "at": "integer64", "gone": "boolean", "name": "string", "price": "double", "size": "integer32"}},
  "Post": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
    "list": {"entity": "Tag", "toMany": true, "ordered": true}, "set": {"entity": "Tag", "toMany": true}}},
  "Tag": {"identity": "word", "attributes": {"word": "string"}}
}}
END
# special KIND COUNT: records as lines of JSON.
special() { python3 Tests/Bench/special_records.py "$1" "$2" >"$work/special.$1.$2"; }
processor_ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
# submit_special NAME ENTITY COUNT OPTION...: a rate by the processor time of the server.
submit_special() {
    local name=$1 entity=$2 count=$3 before ticks
    shift 3
    before=$(processor_ticks)
    broker submit --entity "$entity" "$@" "$work/special.$name.$count" >/dev/null 2>&1 || [ $? -eq 3 ]
    ticks=$(($(processor_ticks) - before))
    jq -nc "{recordsPerSecond: ($count * $(getconf CLK_TCK) / ([$ticks, 1] | max))}" | tee -a "$work/special.$name.$count.rate" |
        jq -r --arg name "$name" '"\($name): \(.recordsPerSecond | floor) records/s of a processor"'
}
for count in "$special_few" "$special_many"; do
    for kind in new taken exchanged feed tombstones; do special "$kind" "$count"; done
done
for kind in list set; do special "$kind" "$special_posts"; done
for _ in $(seq "$rounds"); do
    for count in "$special_few" "$special_many"; do
        new_server "$work/special.json"
        submit_special new Item "$count"
        submit_special exchanged Item "$count"
        submit_special feed Feed "$count"
        submit_special tombstones Feed "$count"
        broker stats --json | jq -c .interpreted
        stop_server
        new_server "$work/special.json"
        submit_special taken Item "$count" --on-invalid skip
        broker stats --json | jq -c .interpreted
        stop_server
    done
    special_jobs=$((special_many / 5000 + (special_many < 5000)))
    baseline special.loop --jobs "$special_jobs" --records 5000
    tail -n 1 "$work/special.loop.1" | jq -c "{recordsPerSecond: ($special_jobs * 5000 / .processorSeconds)}" >>"$work/special.loop.rate"
    for kind in set list; do
        new_server "$work/special.json"
        submit_special "$kind" Post "$special_posts"
        stop_server
    done
done
special_row() { # WHAT NAME
    compare_rates "$1" "special.$2.$special_many.rate" baseline special.loop.rate
    compare_rates "$1, four times as many" "special.$2.$special_many.rate" 'a quarter' "special.$2.$special_few.rate"
}
special_row 'one record in 100 refused by the store, skip' taken
special_row 'unique values exchanged' exchanged
special_row 'feed with 5 % tombstones' tombstones
compare_rates '300,000 ordered links' "special.list.$special_posts.rate" unordered "special.set.$special_posts.rate"
