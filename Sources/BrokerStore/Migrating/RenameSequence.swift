/// Renamings that can be done one after the other, though a new name may still be another's: SQLite takes names that differ
/// in the case of ASCII letters for the same.
struct RenameSequence {
    struct Step: Equatable {
        let from: String
        let to: String
    }

    private(set) var steps: [Step] = []
    /// By the folded name, the name as it stands.
    private var present: [[UInt8]: String]
    private var spareCount = 0

    /// - Parameters:
    ///   - present: every name that is taken.
    ///   - wanted: names that are there and what they become, each once.
    init(_ present: some Sequence<String>, _ wanted: [(old: String, new: String)]) {
        self.present = Dictionary(present.map { (Self.folded($0), $0) }, uniquingKeysWith: { first, _ in first })
        var pending = wanted.filter { !$0.old.hasSameBytes(as: $0.new) }
        while !pending.isEmpty {
            let next = pending.removeFirst()
            guard let occupant = self.present[Self.folded(next.new)] else {
                rename(next.old, to: next.new)
                continue
            }
            let spare = spareName()
            rename(occupant, to: spare)
            if occupant.hasSameBytes(as: next.old) {
                rename(spare, to: next.new)
                continue
            }
            for index in pending.indices where pending[index].old.hasSameBytes(as: occupant) {
                pending[index].old = spare
            }
            rename(next.old, to: next.new)
        }
    }

    /// What has had that name at the beginning, at the end.
    func current(_ name: String) -> String {
        steps.reduce(name) { name, step in name.hasSameBytes(as: step.from) ? step.to : name }
    }

    private mutating func rename(_ old: String, to new: String) {
        steps.append(Step(from: old, to: new))
        present[Self.folded(old)] = nil
        present[Self.folded(new)] = new
    }

    private mutating func spareName() -> String {
        repeat { spareCount += 1 } while present[Self.folded("_broker_aside_\(spareCount)")] != nil
        return "_broker_aside_\(spareCount)"
    }

    /// As SQLite compares names.
    static func folded(_ name: String) -> [UInt8] {
        name.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 + 0x20 : $0 }
    }
}
