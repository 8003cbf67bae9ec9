# Large jobs: sourced by Tests/Bench/run.

section '500,000 new records, the same again, and again with one in ten changed, beside the baseline'
for _ in $(seq "$rounds"); do
    baseline baseline "${bulk[@]}" --then unchanged:1 --then changed:1,unchanged:9
    serve
    load new "${bulk[@]}"
    load unchanged "${bulk[@]}" --existing "$((bulk[1] * bulk[3]))" --mix unchanged:1
    load changed "${bulk[@]}" --existing "$((bulk[1] * bulk[3]))" --mix changed:1,unchanged:9
    stop_server
    copy_alone copy
done
compare_rates 'first load of 500,000 records' new baseline baseline.1
compare_rates 'first load of 500,000 records' new 'INSERT … SELECT' copy
compare_rates 'the same again, unchanged' unchanged baseline baseline.2
compare_rates 'again, one in ten changed' changed baseline baseline.3
time_row 'processor time of the first load' hundredths "$(median new .server.processorSeconds)" \
    baseline "$(median baseline.1 .processorSeconds)"

section '200,000 new records with random UUIDs, beside the baseline'
for _ in $(seq "$rounds"); do
    baseline uuidbaseline "${part[@]}" --keys uuid
    load_new uuid "${part[@]}" --keys uuid
    copy_alone uuidcopy
done
compare_rates 'random UUIDs' uuid baseline uuidbaseline.1
compare_rates 'random UUIDs' uuid 'INSERT … SELECT' uuidcopy

section '3,000,000 new records: the last 300,000 beside the first 100,000'
for _ in $(seq "$rounds"); do
    serve
    load large "${large[@]}" --interval 0.05
    stop_server
done
# The rate over the intervals until so many records were committed, and from so many on.
# shellcheck disable=SC2016 # the variables are jq's
rate_until='[foreach .intervals[] as $i ({n: 0, s: 0}; {n: (.n + $i.records), s: (.s + $i.seconds)})] |
    (map(select(.n >= $many)) | first) | .n / .s'
# shellcheck disable=SC2016
rate_from='(reduce .intervals[] as $i ([]; . + [{n: ((last.n // 0) + $i.records), r: $i.records, s: $i.seconds}])) |
    map(select(.n > $many)) | (map(.r) | add) / (map(.s) | add)'
large_records=$((large[1] * large[3]))
jq -c --argjson many "$((large_records / 30))" "{first: ($rate_until)}" "$work/large" >"$work/large.first"
jq -c --argjson many "$((large_records * 9 / 10))" "{last: ($rate_from)}" "$work/large" >"$work/large.last"
rate_row 'at 3,000,000 rows' "$(median large.last .last)" 'at 100,000 rows' "$(median large.first .first)"

section '100,000 ragged records, beside full ones'
for _ in $(seq "$rounds"); do
    for presence in 1 0.9 0.5 0.1; do
        load_new "ragged.12.$presence" "${ragged[@]}" --shape ragged --attributes 12 --presence "$presence"
    done
    for presence in 1 0.5; do
        load_new "ragged.20.$presence" "${ragged[@]}" --shape ragged --attributes 20 --presence "$presence"
    done
done
compare_rates 'ragged, 12 attributes, p = 0.9' ragged.12.0.9 full ragged.12.1
compare_rates 'ragged, 12 attributes, p = 0.5' ragged.12.0.5 full ragged.12.1
compare_rates 'ragged, 12 attributes, p = 0.1' ragged.12.0.1 full ragged.12.1
compare_rates 'ragged, 20 attributes, p = 0.5' ragged.20.0.5 full ragged.20.1

section '200,000 full records: keys in random order, and half of the values null'
for _ in $(seq "$rounds"); do
    load_new full "${part[@]}"
    load_new shuffled "${part[@]}" --key-order random
    load_new nulls "${part[@]}" --nulls 0.5
done
compare_rates 'keys in random order' shuffled full full
compare_rates 'half of the values null' nulls full full
