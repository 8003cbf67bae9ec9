import TestSupport
import Foundation
import Testing

/// The commands of `protocol/guides/continuous-backup.md` do what the page says, with Litestream itself, between three folders that
/// are three machines.
@Suite(.timeLimit(.minutes(5))) struct ContinuousBackupGuideTests {
    private static let litestream = Repository.path(of: ".build/litestream/bin")
    private static let isInstalled = FileManager.default.isExecutableFile(atPath: litestream + "/litestream")

    private static let jobs = 600
    /// The jobs before the second machine follows, and before the load of whose middle the first one dies.
    private static let (early, middle) = (100, 200)
    private static let batch = 250

    /// Shell functions; `MACHINE` is the folder of a machine.
    private static let functions = """
        set -eu
        deadline=$(( $(date +%s) + \(Patience.seconds) ))
        until_so() {
            until "$@"; do
                [ "$(date +%s)" -lt "$deadline" ] || { echo "in vain: $*" >&2; cat */server.log */*.log >&2; exit 1; }
                sleep 0.05
            done
        }
        start() {
            brokerd --config "$MACHINE/brokerd.json" "$@" > "$MACHINE/ready" 2>> "$MACHINE/server.log" & server=$!
            until_so test -s "$MACHINE/ready"
        }
        follow() {
            litestream restore -f -o second/warm.sqlite "file://$PWD/backup/store" > second/follow.log 2>&1 & follower=$!
        }
        systemctl() {
            case $* in
                'start brokerd') start ;;
                'stop litestream-follow') kill "$follower"; wait "$follower" ;;
                *) exit 1 ;;
            esac
        }
        records() {
            python3 -c "
        import os, time
        for n in range(\(jobs * batch)):
            while n == \(early * batch + 1) and not os.path.exists('follows') or n == \(middle * batch + 1) and not os.path.exists('dies'):
                time.sleep(0.02)
            print('[' if n == 0 else ',', '{\\"number\\": %d}' % n, flush=n % 50 == 0)
        print(']')"
        }
        load() {
            records | broker submit --socket "$MACHINE/socket" --entity Event --id load --batch-records \(batch) "$@"
        }
        value() { sqlite3 -readonly -cmd '.timeout 5000' "$1" "$2"; }
        has_jobs() { [ "$(value "$1" 'SELECT count(*) FROM _broker_jobs')" -ge "$2" ]; }
        warm_is_whole() {
            test $(( $(\(part("read"))) % \(batch) )) = 0 || { echo "part of a job" >&2; exit 1; }
        }
        warm_has_jobs() { warm_is_whole; has_jobs second/warm.sqlite "$1"; }
        names_reader() { broker stats --socket first/socket | grep -q litestream; }
        server= backup= follower=
        trap 'kill -9 $server $backup $follower 2> /dev/null || true' EXIT

        """

    /// A command of the page for the machines of this test.
    private static func part(_ name: String, on machine: String = "second") -> String {
        let blocks = try? Repository.codeBlocks(of: "protocol/guides/continuous-backup.md")
        var text = blocks?.first {
            $0.language == name || $0.language == "sh " + name || $0.language == "yaml " + name
        }?.text
        for (written, here) in [
            ("file:///mnt", "file://$PWD"), ("/mnt", "$PWD"), ("/var/lib/broker", "$PWD/" + machine),
            ("/etc/broker", machine),
        ] { text = text?.replacingOccurrences(of: written, with: here) }
        return text ?? "echo 'the page has no \(name)' >&2; exit 1"
    }

    private static func machine(_ name: String) -> String {
        """
        mkdir -p \(name)
        cat > \(name)/brokerd.json << END
        {"model": ["model.json"], "store": "\(name)/store.sqlite", "socket": "\(name)/socket"}
        END
        cat > \(name)/litestream.yml << END
        \(part("litestream.yml", on: name))END

        """
    }

    /// The load, and the death of both programs while it runs.
    private static let death = """
        MACHINE=first
        start --journal
        litestream replicate -config first/litestream.yml > first/litestream.log 2>&1 & backup=$!
        load --reconnect-timeout 0 > load.log 2>&1 & client=$!
        until_so has_jobs first/store.sqlite \(early - 1)
        until_so test -d backup/store/ltx/0
        follow
        until_so test -f second/warm.sqlite-txid
        touch follows
        until_so warm_has_jobs \(middle - 1)
        until_so names_reader
        touch dies
        until_so has_jobs first/store.sqlite \(middle + 50)
        kill -9 "$server" "$backup"
        wait "$client" || true
        \(part("list", on: "first"))
        """

    /// Compares a copy with the store of the dead machine: all that it has is there, and no job is missing before its last.
    private static func compare(_ copy: String) -> String {
        """
        last=$(value \(copy) 'SELECT count(*) FROM _broker_jobs')
        test "$last" -gt 0
        test "$(value \(copy) 'SELECT max(sequence) FROM _broker_jobs')" = "$last"
        test "$(value \(copy) 'SELECT count(*) FROM Event')" = $(( last * \(batch) ))
        for table in Event _broker_jobs _broker_feed; do
            test "$(value \(copy) "ATTACH 'file:first/store.sqlite?mode=ro' AS first;
                SELECT count(*) FROM (SELECT rowid, * FROM main.$table EXCEPT SELECT rowid, * FROM first.$table)")" = 0
        done
        echo "\(copy): $last of $(value first/store.sqlite 'SELECT count(*) FROM _broker_jobs') jobs"

        """
    }

    /// The client sends all jobs again.
    private static let again = """
        load > again.log 2>&1 || { cat again.log >&2; exit 1; }
        test "$(value "$MACHINE/store.sqlite" 'SELECT count(*), count(DISTINCT number) FROM Event')" = '\(jobs * batch)|\(jobs * batch)'
        test "$(value "$MACHINE/store.sqlite" 'SELECT count(*) FROM _broker_jobs')" = \(jobs)
        kill "$server"; wait "$server"

        """

    @Test(.enabled(if: isInstalled, "Litestream is not installed; scripts/test --all installs it"))
    func
        `a copy has whole jobs in order after both were killed, serves after each way of the page, and applies jobs once`()
        throws
    {
        let programs = try Programs()
        try programs.write(#"{"entities": {"Event": {"attributes": {"number": "integer64"}}}}"#, to: "model.json")
        let built = programs.executable("broker").deletingLastPathComponent().path
        let finished = Self.part("finished").trimmingCharacters(in: .newlines)
        let script =
            "PATH=\"\(built):\(Self.litestream):$PATH\"\n" + Self.functions
            + ["first", "second", "third", "fourth"].map(Self.machine).joined() + Self.death
            + "\nis_finished() { \(finished); }\nuntil_so is_finished\n"
            + "MACHINE=third\n" + Self.part("restore", on: "third") + Self.compare("third/store.sqlite") + Self.again
            // A copy goes on with a journal, too.
            + "MACHINE=fourth\n"
            + Self.part("restore", on: "fourth")
            .replacingOccurrences(of: "systemctl start brokerd", with: "start --journal") + Self.again
            + "MACHINE=second\nwarm_is_whole\n" + Self.part("take over") + Self.compare("second/store.sqlite")
            + Self.again
            + "echo done\n"
        let result = try programs.shell(script)
        #expect(result.status == 0, "\(result.output.suffix(1_000))\n\(result.complaints.suffix(3_000))")
        #expect(result.output.hasSuffix("done\n"))
        #expect(result.output.contains("A start would succeed."), "\(result.output)")
    }
}
