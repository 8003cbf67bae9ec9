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
