# The results, as a table here and in the page: sourced by Tests/Bench/run.

header=(what Broker 'compared with' 'Broker is … times as fast')

show_rows() {
    printf '\n== Result: medians of %d rounds, in %d s\n' "$rounds" "$SECONDS"
    {
        printf '%s\t%s\t%s\t%s\n' "${header[@]}"
        cat "$work/rows"
    } | python3 Tests/Bench/table.py
}

# pragmas NAME...: of the last server's store, as a list.
pragmas() {
    local name
    for name in "$@"; do
        printf '%s = %s, ' "$name" "$(sqlite3 -readonly "$work/store.sqlite" "PRAGMA $name")"
    done
}

# Where and with what it was measured, as rows of a table in Markdown; no path of this machine is among it.
environment() {
    printf '| %s | %s |\n' \
        'measured' "$(date -u +%Y-%m-%d), medians of $rounds rounds, seed $seed${BROKER_BENCH_SCALE:+, scale $BROKER_BENCH_SCALE}" \
        'Swift' "$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([^ ]*\).*/\1/p' | head -n 1)" \
        'Redis' "$(redis-server --version | sed -n 's/.* v=\([^ ]*\).*/\1/p')" \
        'server' "$(jq -r -s 'last.server.stats.server' "$work/new")" \
        'sqlite' "$(sqlite3 --version | cut -d ' ' -f 1)" \
        'file system' "$(findmnt -n -o FSTYPE -T "$work")" \
        'pragmas' "$(pragmas journal_mode page_size auto_vacuum)synchronous = full" \
        'machine' "$(nproc) × $(sed -n '/^model name/{s/.*: //p;q}' /proc/cpuinfo)" \
        'kernel' "$(uname -r)" \
        'memory' "$(($(getconf _PHYS_PAGES) * $(getconf PAGE_SIZE) >> 30)) GiB"
}

# write_page PAGE: between its two comments.
write_page() {
    {
        sed '/<!-- results -->/q' "$1"
        printf '\n| | |\n|---|---|\n'
        environment
        printf '\n| %s | %s | %s | %s |\n|---|---|---|---|\n' "${header[@]}"
        sed 's/\t/ | /g; s/^/| /; s/$/ |/' "$work/rows"
        printf '\n'
        sed -n '/<!-- end of results -->/,$p' "$1"
    } >"$work/page"
    cp "$work/page" "$1"
    printf '\nWritten into %s\n' "$1"
}
