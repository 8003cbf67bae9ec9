internal import BrokerModel
/// Renamings in an order in which each new name is free, though another part may have it at the beginning. SQLite
/// treats names that differ in the case of ASCII letters as equal.
package struct RenameSequence {
    package struct Step: Equatable {
        let from: String
        let to: String
    }

    package private(set) var steps: [Step] = []
    /// By the folded name: the name as written.
    private var present: [Name: String]
    private var temporaryCount = 0

    /// - Parameters:
    ///   - present: every name that is taken.
    ///   - wanted: existing names and their new names, each once.
    package init(_ present: some Sequence<String>, _ wanted: [(old: String, new: String)]) {
        self.present = Dictionary(present.map { (Name($0), $0) }, uniquingKeysWith: { first, _ in first })
        var pending = wanted.filter { !$0.old.hasSameBytes(as: $0.new) }
        while !pending.isEmpty {
            let next = pending.removeFirst()
            guard let occupant = self.present[Name(next.new)] else {
                rename(next.old, to: next.new)
                continue
            }
            let temporary = temporaryName()
            rename(occupant, to: temporary)
            if occupant.hasSameBytes(as: next.old) {
                rename(temporary, to: next.new)
                continue
            }
            for index in pending.indices where pending[index].old.hasSameBytes(as: occupant) {
                pending[index].old = temporary
            }
            rename(next.old, to: next.new)
        }
    }

    /// The final name of the part that had that name at the beginning.
    package func current(_ name: String) -> String {
        steps.reduce(name) { name, step in name.hasSameBytes(as: step.from) ? step.to : name }
    }

    private mutating func rename(_ old: String, to new: String) {
        steps.append(Step(from: old, to: new))
        present[Name(old)] = nil
        present[Name(new)] = new
    }

    private mutating func temporaryName() -> String {
        repeat { temporaryCount += 1 } while present[Name("_broker_aside_\(temporaryCount)")] != nil
        return "_broker_aside_\(temporaryCount)"
    }
}
