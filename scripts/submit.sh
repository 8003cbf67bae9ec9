#!/bin/sh
# Sends one job to a Broker server with nothing but socat, lz4 and standard tools, and prints what became of it as JSON.
#
# usage: submit.sh SOCKET [JOB.json]    the job comes from standard input when there is no file, or when it is -
#
# Exit status: 0 the job is committed (or another message was answered), 1 it failed, 2 usage,
#              3 committed, but some records were skipped, 4 cannot connect
#
# BROKER_TIMEOUT: seconds to wait for the answer, 600 by default.
set -eu
LC_ALL=C
export LC_ALL

# The protocol's limit: a length of which the first byte is 0.
maximum_frame=16777215

stop() {
    status=$1
    shift
    printf 'submit.sh: %s\n' "$*" >&2
    exit "$status"
}

usage() {
    printf 'usage: submit.sh SOCKET [JOB.json]\n' >&2
    exit 2
}

if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage; fi
case $1 in -*) usage ;; esac
socket=$1
job=${2:--}
seconds=${BROKER_TIMEOUT:-600}
case $seconds in '' | *[!0-9]*) stop 2 "BROKER_TIMEOUT must be a number of seconds, not \"$seconds\"." ;; esac
for tool in socat lz4 mktemp od awk; do
    command -v "$tool" > /dev/null || stop 1 "$tool is missing; install it (apt-get install $tool)."
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# size FILE: its bytes.
size() { wc -c < "$1" | tr -d ' '; }

# part FILE OFFSET COUNT: that many of its bytes.
part() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }

# ---- Send

if [ "$job" = - ]; then
    lz4 -q -c > "$work/payload" || stop 1 'Standard input could not be read and compressed.'
else
    [ -r "$job" ] || stop 1 "$job cannot be read."
    lz4 -q -c < "$job" > "$work/payload" || stop 1 "$job could not be read and compressed."
fi
length=$(size "$work/payload")
[ "$length" -le "$maximum_frame" ] ||
    stop 1 "The job is $length bytes long even when compressed; the limit is $maximum_frame. Split it into several."

[ -S "$socket" ] || stop 4 "$socket is no socket; is the server running?"
# In socat's addresses these characters have a meaning of their own.
address=$(printf '%s' "$socket" | sed 's/[][\\,:!"'\''(){}]/\\&/g')
{
    for shift in 24 16 8 0; do
        # shellcheck disable=SC2059  # The format is the byte.
        printf "\\$(printf '%03o' $((length >> shift & 255)))"
    done
    cat "$work/payload"
} > "$work/frame"
connected=0
socat -t "$seconds" - "UNIX-CONNECT:$address" < "$work/frame" > "$work/answers" 2> "$work/complaint" || connected=$?
available=$(size "$work/answers")
if [ "$available" -eq 0 ]; then
    [ "$connected" -eq 0 ] || stop 4 "Cannot connect to $socket: $(sed -n '$s/.* E //p' "$work/complaint")"
    stop 1 "The server gave no answer; $seconds s is the longest to wait. (\"notify\": [] asks for none but a failure.)"
fi

# ---- Read the answers: the last one is the outcome, an "accepted" may come before

offset=0
outcome=
while [ "$offset" -lt "$available" ]; do
    [ $((available - offset)) -ge 4 ] || stop 1 'The answer was cut off in the middle of its length.'
    # shellcheck disable=SC2046  # Four numbers are four words.
    set -- $(part "$work/answers" "$offset" 4 | od -A n -t u1)
    [ "$1" -eq 0 ] || stop 1 "What answers on $socket does not speak Broker's protocol."
    length=$((($2 << 16) + ($3 << 8) + $4))
    offset=$((offset + 4))
    [ $((available - offset)) -ge "$length" ] ||
        stop 1 "The answer was cut off: $((available - offset)) of $length bytes came."
    part "$work/answers" "$offset" "$length" > "$work/answer"
    lz4 -q -d -c < "$work/answer" > "$work/message" || stop 1 'The answer could not be decompressed.'
    offset=$((offset + length))
    # A server's messages begin with their type, and have no line breaks but in a tag, which comes last.
    outcome=$(sed -n '1s/^{"type":"\([A-Za-z]*\)".*/\1/p' "$work/message")
    case $outcome in
        accepted) outcome= ;;
        *) break ;;
    esac
done
[ -n "$outcome" ] || stop 1 'The connection ended before the outcome of the job came.'

awk 1 "$work/message"

string='"([^"\\]|\\.)*"'
changes="\\{($string:\\{(\"[a-z]+\":[0-9]+,?)*\\},?)*\\}"
case $outcome in
    failed | error) exit 1 ;;
    completed)
        if head -n 1 "$work/message" | grep -E -q \
            "^\\{\"type\":\"completed\",\"id\":$string,\"sequence\":[0-9]+,\"duplicate\":[a-z]+,\"changes\":$changes,\"rejected\":\\[\\{"; then
            exit 3
        fi
        ;;
esac
