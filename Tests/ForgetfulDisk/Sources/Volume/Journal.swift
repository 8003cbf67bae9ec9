/// A change that the journal commits or loses as a whole.
enum Operation {
    case names([NameChange])
    case resize(UInt64, Int)
    case attributes(UInt64, Attributes)
}

/// A name in a directory that now means another file, or none.
struct NameChange {
    let directory: UInt64
    let name: [UInt8]
    let target: UInt64?
}

/// The part of the changes since the last sync that a power cut leaves.
package enum Survival: String, CaseIterable {
    /// Nothing.
    case none
    /// Any part that the disk may have received; the seed decides.
    case some
}

extension Volume {
    /// The count of operations at which the journal is full.
    private static let journalCapacity = 1 << 16

    /// Adds an operation to the journal, which commits by itself when it is full, as ext4's does.
    func record(_ operation: Operation) {
        journal.append(operation)
        if journal.count >= Self.journalCapacity || unusedPages > pageLimit { commit() }
    }

    /// Commits all operations: a power cut no longer reverts them.
    package func commit() {
        guard !journal.isEmpty || !unused.isEmpty else { return }
        for operation in journal { apply(operation) }
        journal.removeAll(keepingCapacity: true)
        for number in unused { inodes[number] = nil }
        unused.removeAll()
        unusedPages = 0
    }

    /// Makes the change on the disk.
    func apply(_ operation: Operation) {
        switch operation {
        case .names(let changes):
            for change in changes { inodes[change.directory]?.syncedEntries[change.name] = change.target }
        case .resize(let number, let size): inodes[number]?.content.resizeSynced(to: size)
        case .attributes(let number, let attributes): inodes[number]?.syncedAttributes = attributes
        }
    }
}
