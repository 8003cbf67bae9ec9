import Broker
import BrokerJSON
import Testing

@testable import BrokerCommand

@Suite(.timeLimit(.minutes(5))) struct WarningCountsTests {
    @Test func `the warnings of all jobs are one line for each code and entity`() {
        var warnings = WarningCounts()
        for job in 1...3 {
            warnings.add(.init(code: .unknownKey, entity: "A", key: "one", count: 2))
            for key in 1...12 where key % job == 0 {
                warnings.add(.init(code: .unknownKey, entity: "B", key: "k\(key)", count: 1))
            }
        }
        warnings.add(.init(code: .inexact, entity: "A", key: "price", count: 1))
        warnings.add(.init(code: .inexact, entity: "B", key: "x"))
        warnings.add(.init(code: .inexact, entity: "B", key: "y", count: 3))
        warnings.add(.init(code: .objectNotFound, entity: "A", count: 2))
        warnings.add(.init(code: .deletionSkipped, entity: "B"))
        warnings.add(.init(code: .init(rawValue: "later"), count: 4))
        #expect(
            warnings.lines == [
                "the model does not name the key \"one\" of A, 6 times",
                "the model does not name 12 keys of B: \"k6\" 3 times, \"k12\" 3 times, \"k2\" 2 times, \"k3\" 2 times, "
                    + "\"k4\" 2 times, \"k8\" 2 times, \"k9\" 2 times, \"k10\" 2 times, \"k1\" once, \"k5\" once, and 2 more, "
                    + "which --json lists",
                "price of A does not hold a value exactly, once; decimal keeps every digit, and a date as many as its \"precision\"",
                "2 attributes of B do not hold values exactly; decimal keeps every digit, and a date as many as its \"precision\": y 3 times, x once",
                "2 keys name no A", "no B was deleted, because a record was skipped", "later, 4 times",
            ])
        for (key, line) in [
            ("lamp.enabled", "the path lamp.enabled of A, once"),
            ("\"lamp.enabled\"", "the key \"lamp.enabled\" of A, once; a dot in the model leads into an object"),
            ("lamp.\"is.on\"", "the path lamp.\"is.on\" of A, once; a dot in the model leads into an object"),
        ] {
            var paths = WarningCounts()
            paths.add(.init(code: .unknownKey, entity: "A", key: key, count: 1))
            #expect(paths.lines == ["the model does not name " + line])
        }
        var writer = JSONWriter()
        writer.array { warnings.write(to: &$0) }
        let json = String(decoding: writer.bytes, as: UTF8.self)
        #expect(json.hasPrefix(#"[{"code":"unknownKey","entity":"A","key":"one","count":6},{"code":"unknownKey","#))
        #expect(
            json.hasSuffix(
                #","key":"y","count":3},{"code":"objectNotFound","entity":"A","count":2},{"code":"#
                    + #""deletionSkipped","entity":"B","count":1},{"code":"later","count":4}]"#))
    }
}
