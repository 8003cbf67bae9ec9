# Files, beside other programs that load them: sourced by Tests/Bench/run.

section 'sqlite-utils upsert of 100,000 records'
python=.build/bench/bin/python
if ! "$python" -c 'import duckdb_extension_sqlite_scanner, sqlite_utils' 2>/dev/null; then
    python3 -m venv .build/bench || { need_packages python3-venv; python3 -m venv .build/bench; }
    # DuckDB of the version that the extension for SQLite is of.
    "$python" -m pip install --quiet sqlite-utils duckdb-extension-sqlite-scanner
fi
"$programs/brokerload" records --jobs 1 --records "$utils_records" >"$work/utils.json"
seconds utils .build/bench/bin/sqlite-utils upsert "$work/upsert.sqlite" Employee "$work/utils.json" --pk id
rate_row 'new records' "$(median new .recordsPerSecond)" sqlite-utils "$(median utils "$utils_records / .seconds")"

section '1,000,000 records as lines of JSON: broker submit beside the harness, DuckDB and sqlite-utils'
"$programs/brokerload" records --jobs "$file_jobs" --records 5000 |
    sed -e 's/^\[//' -e 's/\]$//' -e 's/}},{/}}\n{/g' >"$work/file.ndjson"
head -n "$utils_records" "$work/file.ndjson" >"$work/utils.ndjson"
for _ in $(seq "$rounds"); do
    serve
    load harness --jobs "$file_jobs" --records 5000
    stop_server
    serve
    seconds submit broker submit --entity Employee "$work/file.ndjson"
    stop_server
done
seconds duckdb "$python" Tests/Bench/duckdb_load.py table "$work"
seconds duckdb.sqlite "$python" Tests/Bench/duckdb_load.py sqlite "$work"
seconds utils.insert .build/bench/bin/sqlite-utils insert "$work/utils.sqlite" Employee "$work/utils.ndjson" --nl --pk id
submit_row() {
    rate_row 'broker submit of 1,000,000 lines of JSON' "$(median submit "$((file_jobs * 5000)) / .seconds")" "$1" "$2"
}
submit_row harness "$(median harness .recordsPerSecond)"
submit_row DuckDB "$(median duckdb "$((file_jobs * 5000)) / .seconds")"
submit_row 'DuckDB into SQLite' "$(median duckdb.sqlite "$((file_jobs * 5000)) / .seconds")"
submit_row 'sqlite-utils insert' "$(median utils.insert "$utils_records / .seconds")"
rm "$work/file.ndjson"

section 'A stream of 1 GiB'
serve
bytes=$("$programs/brokerload" records --jobs 1 --records 5000 | wc -c)
load stream --jobs $((stream_bytes / bytes + 1)) --records 5000
row 'memory on a stream of 1 GiB' "$(jq '.server.peakResidentBytes / 1048576 | round' "$work/stream") MiB" '' ''
stop_server
