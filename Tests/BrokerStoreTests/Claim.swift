import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// A claim about jobs, as a script: its name after `#`, and below it jobs with their effects, and rows after them.
///
/// ```
/// # links without an inverse keep the order of their source
/// {"Album": {"id": 7, "tags": ["c", "a"]}}
/// tags :: 7|0|c, 7|1|a
/// skip {"Album": {"id": 7, "tags": ["a", 5]}} => Album =1, Tag =1 !1; invalidValue /Album/tags/1
/// ```
///
/// A job is a payload, or operations as a message has them. After `=>` stands its effect, see `Outcome.summary`, and after `;` the
/// rejected records; or the code and the path of its fault. The word `keys` or `warnings` before a job asks for these instead.
/// After `::` stand the rows of a query, which may have a name. An indented line continues the one before it. A claim begins with
/// an empty store, or with what the suite has in it.
struct Claim: CustomTestStringConvertible, Sendable {
    let testDescription: String
    private var lines: [String] = []

    static func list(_ script: String) -> [Claim] {
        var claims: [Claim] = []
        for line in script.split(separator: "\n") {
            if line.hasPrefix("# ") {
                claims.append(Claim(testDescription: String(line.dropFirst(2))))
            } else if line.hasPrefix(" ") {
                claims[claims.count - 1].lines.append(
                    claims[claims.count - 1].lines.removeLast() + " " + line.trimmingPrefix { $0 == " " })
            } else {
                claims[claims.count - 1].lines.append(String(line))
            }
        }
        return claims
    }

    /// - Parameters:
    ///   - queries: by name.
    ///   - wantsKeys: of jobs of operations. Without keys, what delete rules delete may be counted alone.
    func check(_ store: TestStore, _ queries: [String: String] = [:], wantsKeys: Bool = true) throws {
        for line in lines {
            if let separator = line.firstRange(of: " ::") {
                let name = String(line[..<separator.lowerBound])
                let rows = try store.rows(queries[name] ?? name).joined(separator: ", ")
                #expect(rows == line[separator.upperBound...].trimmingPrefix(" "), "\(name)")
            } else {
                let parts = line.split(separator: " => ", maxSplits: 1)
                let (end, isFailure) = try end(of: parts[0], store, wantsKeys)
                if parts.count == 2 {
                    #expect(end == parts[1], "\(line)")
                } else {
                    #expect(!isFailure, "\(line): \(end)")
                }
            }
        }
        #expect(try store.isSound())
    }

    private func end(
        of line: Substring, _ store: TestStore, _ wantsKeys: Bool
    ) throws -> (text: String, isFailure: Bool) {
        let start = line.firstIndex(of: "{")!
        let (words, text) = (line[..<start].split(separator: " "), String(line[start...]))
        let policy = words.contains("skip") ? InvalidRecordPolicy.skip : .fail
        let hasOperations = text.hasPrefix(#"{"op":"#) || text.hasPrefix(#"{"entity":"#)
        let listsKeys = words.contains("keys")
        let job =
            try hasOperations
            ? store.job(operations: text, policy, wantsKeys: wantsKeys || listsKeys)
            : store.job(text, policy, wantsKeys: listsKeys)
        let end = try store.apply(job)
        guard let outcome = end.outcome else {
            return ("\(end.fault?.code.rawValue ?? "not applied") \(end.fault?.path ?? "nowhere")", true)
        }
        if listsKeys { return (String(decoding: outcome.keys ?? [], as: UTF8.self), false) }
        if words.contains("warnings") {
            let warnings = outcome.warnings.map { "\($0.code.rawValue) \($0.entity).\($0.key ?? "") \($0.count)" }
            return (warnings.isEmpty ? "none" : warnings.joined(separator: ", "), false)
        }
        let effect = outcome.summary.isEmpty ? "nothing" : outcome.summary
        return (
            ([effect] + (outcome.rejections.isEmpty ? [] : [outcome.rejections.joined(separator: ", ")])).joined(
                separator: "; "), false
        )
    }
}
