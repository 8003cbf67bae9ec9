import BrokerJSON

/// The position of the records in a document: the names of elements, beginning with the document's own.
struct XMLRoot {
    struct Step {
        let name: [UInt8]
        /// The index among several of that name in one parent; nil for all.
        var index: Int?
    }

    let steps: [Step]
    let text: String

    /// - Parameter root: nil when the document's element is the record.
    init(_ root: RecordRoot?) {
        text = root?.text ?? ""
        var steps: [Step] = []
        for token in root?.tokens ?? [] {
            // No element's name begins with a digit.
            if root?.isPointer == true, let index = Int(token), index >= 0, let last = steps.last, last.index == nil {
                steps[steps.count - 1].index = index
            } else {
                steps.append(Step(name: Array(token.utf8)))
            }
        }
        self.steps = steps
    }

    /// The document is the record.
    var isWhole: Bool { steps.isEmpty }
}

/// The number of root steps that the open elements match.
struct XMLPath {
    /// The maximum number of an element's children in a message.
    private static let namedChildren = 10

    private let root: XMLRoot
    /// The number of open elements that match the root's first steps.
    private var matched = 0
    /// The number of elements of each step's name in the open parent so far.
    private var counts: [Int]
    private var hasRecords = false
    /// The longest match so far, and the children there that are not the next step.
    private var deepest = 0
    private var others: [String] = []

    init(_ root: XMLRoot) {
        self.root = root
        counts = [Int](repeating: 0, count: root.steps.count)
    }

    /// An element begins that is in no record.
    ///
    /// - Parameter depth: 1 for the document's own element.
    /// - Returns: whether it is a record.
    mutating func begins(_ name: [UInt8], at depth: Int) -> Bool {
        guard !root.isWhole else { return depth == 1 }
        guard matched == depth - 1, matched < root.steps.count else { return false }
        let step = root.steps[matched]
        guard step.name == name else {
            note(String(decoding: name, as: UTF8.self))
            return false
        }
        defer { counts[depth - 1] += 1 }
        guard step.index == nil || step.index == counts[depth - 1] else { return false }
        matched += 1
        if matched < counts.count { counts[matched] = 0 }
        if matched > deepest {
            deepest = matched
            others = []
        }
        if matched == root.steps.count { hasRecords = true }
        return matched == root.steps.count
    }

    private mutating func note(_ other: String) {
        guard matched == deepest, others.count < Self.namedChildren, !others.contains(other) else { return }
        others.append(other)
    }

    /// An element has ended.
    ///
    /// - Parameter depth: the number of elements that are still open.
    mutating func ended(at depth: Int) { matched = min(matched, depth) }

    /// Why there is no record, when the root matches no element; nil when it matches, or matches one without children.
    var absence: String? {
        guard !root.isWhole, !hasRecords, deepest < root.steps.count else { return nil }
        if deepest == root.steps.count - 1, others.isEmpty, root.steps[deepest].index == nil, deepest > 0 { return nil }
        let step = root.steps[deepest]
        let name = "\"\(String(decoding: step.name, as: UTF8.self))\"" + (step.index.map { " number \($0)" } ?? "")
        let above = root.steps[..<deepest].map { String(decoding: $0.name, as: UTF8.self) }.joined(separator: ".")
        let there = others.isEmpty ? "" : "; there is \(others.map { "\"\($0)\"" }.joined(separator: ", "))"
        return "there is no element \(name)" + (deepest == 0 ? "" : " at \"\(above)\"") + there
    }
}
