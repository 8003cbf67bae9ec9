/// The position of a part of a model's document.
package struct SourcePlace: Sendable, Hashable {
    /// The name of the file as it was given; empty when there is only one.
    package var source: String
    /// Both count from 1, columns in bytes; 0 for a part without a position.
    package var line: Int
    package var column: Int

    package init(source: String = "", line: Int, column: Int) {
        self.source = source
        self.line = line
        self.column = column
    }

    /// The position of a part that is in no file.
    package static let unknown = SourcePlace(line: 0, column: 0)
}

extension ModelPlace {
    package init(pointer: String, at place: SourcePlace) {
        self.init(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}

/// A decision of a source of models about a part of a ``ModelDocument``, with the reason: no part of a foreign model is
/// converted, inferred or skipped silently.
package struct ModelNote: Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The part is converted to another form.
        case taken
        /// The part is inferred by a rule; the source lacks it.
        case inferred
        /// The part is skipped: this model cannot express it.
        case leftOut = "skipped"
        /// The part is ignored: it has no effect.
        case passedOver = "ignored"
    }

    package var kind: Kind
    package var message: String
    /// The subject: a JSON Pointer, also of a skipped part that the document lacks.
    package var place: ModelPlace

    package init(_ kind: Kind, _ message: String, at place: ModelPlace) {
        self.kind = kind
        self.message = message
        self.place = place
    }

    /// The line of the source, the subject, and the note.
    package var description: String { ModelFault("\(kind.rawValue): \(message)", at: place).description }
}

/// Finds the name that was probably intended.
package enum NearMiss {
    /// Returns `; did you mean "…"?` for the nearest candidate, or an empty text when none is near.
    package static func question(_ name: String, among candidates: some Sequence<String>) -> String {
        guard let nearest = nearest(to: name, among: candidates) else { return "" }
        return "; did you mean \"\(nearest)\"?"
    }

    /// The same as the end of a sentence: a full stop where none is near.
    package static func ending(_ name: String, among candidates: some Sequence<String>) -> String {
        let question = question(name, among: candidates)
        return question.isEmpty ? "." : question
    }

    /// Bytes. A longer name has no near miss: it may be a client's.
    package static let longestName = 64
    /// No more candidates are compared.
    private static let mostCandidates = 500

    /// The candidate with the fewest typing errors between it and `name`, at most one for every three letters.
    package static func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
        guard !name.isEmpty, name.utf8.count <= longestName else { return nil }
        let letters = Array(name.lowercased().unicodeScalars)
        let limit = max(1, letters.count / 3)
        var best: (name: String, distance: Int)?
        for candidate in candidates.lazy.prefix(mostCandidates) {
            // Each scalar has one to four bytes.
            guard candidate.utf8.count <= 4 * (letters.count + limit) else { continue }
            let others = Array(candidate.lowercased().unicodeScalars)
            guard abs(others.count - letters.count) <= limit else { continue }
            let distance = distance(letters, others)
            if distance <= limit, distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.name
    }

    /// Letters added, omitted, changed or swapped with their neighbour (optimal string alignment distance).
    private static func distance(_ first: [Unicode.Scalar], _ second: [Unicode.Scalar]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...second.count)
        for row in first.indices {
            var current = [row + 1]
            for column in second.indices {
                let change = last[column] + (first[row] == second[column] ? 0 : 1)
                var least = min(change, last[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, first[row] == second[column - 1], first[row - 1] == second[column] {
                    least = min(least, beforeLast[column - 1] + 1)
                }
                current.append(least)
            }
            beforeLast = last
            last = current
        }
        return last[second.count]
    }
}
