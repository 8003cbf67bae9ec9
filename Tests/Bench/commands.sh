# The commands sync, fetch and delete: sourced by Tests/Bench/run.

# leaves COUNT SQL: what a command has left in the store.
leaves() {
    local left
    left=$(sqlite3 -readonly "$work/store.sqlite" "$2")
    if ((left == $1)); then return; fi
    printf 'The store has %d objects, and not %d\n' "$left" "$1" >&2
    exit 1
}

section 'A sync that deletes 1 %, beside processing the same records; a fetch, beside sqlite3 -json'
serve
"$programs/brokerload" records --jobs 1 --records $((sync_records / 100)) --first "$sync_records" >"$work/gone.json"
"$programs/brokerload" records --jobs 1 --records "$sync_records" >"$work/kept.json"
for _ in $(seq "$rounds"); do
    broker submit --entity Employee "$work/kept.json" "$work/gone.json" >/dev/null
    seconds process broker submit --entity Employee "$work/kept.json"
    seconds sync broker sync --entity Employee "$work/kept.json"
    leaves "$sync_records" 'SELECT count(*) FROM Employee'
    seconds fetch broker fetch Employee --limit "$fetched_objects" --json
    seconds select sqlite3 -readonly -json "$work/store.sqlite" \
        "SELECT * FROM Employee ORDER BY id LIMIT $fetched_objects"
done
stop_server
compare_seconds 'sync that deletes 1 %' sync 'process' process
compare_seconds 'fetch of 100,000 objects' fetch 'sqlite3 -json' select

section 'A delete of 100,000 objects, 99 % of them by cascades over two levels, beside plain SQL'
cat >"$work/tree.json" <<'END'
{"entities": {
  "Firm": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
    "relationships": {"teams": {"entity": "Team", "toMany": true, "inverse": "firm", "deleteRule": "cascade"}}},
  "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
    "relationships": {"firm": {"entity": "Firm", "inverse": "teams"},
      "staff": {"entity": "Person", "toMany": true, "inverse": "team", "deleteRule": "cascade"}}},
  "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
    "relationships": {"team": {"entity": "Team", "inverse": "staff"}}}
}}
END
jq -nc --argjson firms $((deleted_objects / 100)) '
    [range($firms) | . as $f | {id: $f, name: "Firm \($f)", teams: [range(9) | ($f * 9 + .) as $t |
        {id: $t, name: "Team \($t)", staff: [range(10) | ($t * 10 + .) | {id: ., name: "Person \(.)"}]}]}]' \
    >"$work/firms.json"
plain_delete() {
    sqlite3 "$work/plain.sqlite" 'PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; BEGIN;
        DELETE FROM Person WHERE team IN (SELECT id FROM Team WHERE firm IN (SELECT id FROM Firm));
        DELETE FROM Team WHERE firm IN (SELECT id FROM Firm);
        DELETE FROM Firm; COMMIT'
}
for _ in $(seq "$rounds"); do
    new_server "$work/tree.json"
    broker submit --entity Firm "$work/firms.json" >/dev/null
    rm -f "$work"/plain.sqlite*
    sqlite3 -readonly "$work/store.sqlite" "VACUUM INTO '$work/plain.sqlite'"
    sqlite3 "$work/plain.sqlite" 'PRAGMA journal_mode = WAL' >/dev/null
    seconds delete broker delete --entity Firm --where TRUEPREDICATE
    seconds plain plain_delete
    leaves 0 'SELECT (SELECT count(*) FROM Firm) + (SELECT count(*) FROM Team) + (SELECT count(*) FROM Person)'
    stop_server
done
compare_seconds 'delete with cascades' delete SQL plain
