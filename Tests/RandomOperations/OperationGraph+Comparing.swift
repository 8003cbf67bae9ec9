public import TestSupport

/// The graph beside the store and the answers of a server.
extension OperationGraph {
    /// Finds the `_pk` of new objects by their marks.
    ///
    /// - Returns: what is not as it should be; nil when all are there.
    public mutating func learnRowKeys(_ storePath: String) throws -> String? {
        var rowKeys: [String: String] = [:]
        for row in try SQLRows.of("SELECT _pk, mark FROM Note", in: storePath) {
            let cells = row.split(separator: "|").map(String.init)
            rowKeys[cells[1]] = cells[0]
        }
        for (node, object) in objects where object.entity.name == "Note" && object.rowKey == nil {
            guard let mark = object.values["mark"], let rowKey = rowKeys[mark] else { return "a Note is missing" }
            objects[node]!.rowKey = rowKey
        }
        return nil
    }

    /// Compares the orders, and takes the places over.
    public mutating func learnPlaces(_ storePath: String) throws -> String? {
        for order in orders {
            let columns = order.columns.map { "\"\($0)\"" }
            let rows = try SQLRows.of(
                "SELECT \(columns.joined(separator: ", ")) FROM \"\(order.table)\" WHERE \(columns[0]) IS NOT NULL",
                in: storePath)
            var found: [(owner: String, place: Int, text: String)] = []
            for row in rows {
                let cells = row.split(separator: "|").map(String.init)
                guard let place = Int(cells.last!) else { return "\(order.table) has no place: \(row)" }
                let owner = cells.prefix(order.ownerColumns).joined(separator: "|")
                found.append((owner, place, cells.dropLast().joined(separator: "|")))
            }
            found.sort { ($0.owner, $0.place) < ($1.owner, $1.place) }
            if found.map(\.text) != order.rows {
                return "the order of \(order.table) is \(found), should be \(order.rows)"
            }
            if Set(found.map { "\($0.owner) \($0.place)" }).count < found.count {
                return "places of \(order.table) are taken twice: \(found)"
            }
            for row in found { learn(row.place, of: order.links[row.text]!) }
        }
        return nil
    }

    /// Where the store has other rows; nil for nowhere.
    public func difference(fromStore storePath: String) throws -> String? {
        for table in tables {
            let columns = table.columns.map { "\"\($0)\"" }.joined(separator: ", ")
            let rows = try SQLRows.of("SELECT \(columns) FROM \"\(table.name)\"", in: storePath).sorted()
            if rows != table.rows { return "\(table.name) is \(rows), should be \(table.rows)" }
        }
        return nil
    }

    /// The position where a `completed` differs from the job's effect, after which the graph is as it is; nil for none.
    ///
    /// - Parameter tellsKeys: it has `keys`, and the graph knows the `_pk` of its objects.
    public func difference(_ effect: Effect, from answer: Message, tellsKeys: Bool) -> String? {
        let rejections = effect.rejections.map { "\($0.code) \($0.path) \($0.entity)" }
        let listed = Self.elements(of: answer, "rejected", ["code", "path", "entity"])
        if listed != rejections { return "rejected are \(listed), should be \(rejections)" }
        var warnings: [String: Int] = [:]
        for warning in Self.elements(of: answer, "warnings", ["count", "code", "entity"]) {
            let words = warning.split(separator: " ", maxSplits: 1)
            warnings[String(words[1]), default: 0] += Int(words[0])!
        }
        if warnings != effect.warnings { return "warnings are \(warnings), should be \(effect.warnings)" }
        for entity in GraphModel.entities {
            let name = entity.name
            let expected = effect.keys[name] ?? .init()
            func count(_ word: String) -> Int { answer["changes.\(name).\(word)"].flatMap { Int($0) } ?? 0 }
            let told = ["inserted", "updated", "unchanged", "deleted"].map(count)
            let rejected = effect.rejections.filter { $0.entity == name }.count
            if count("rejected") != rejected {
                return "\(count("rejected")) of \(name) rejected, should be \(rejected)"
            }
            let perhaps = expected.perhapsUpdated.count
            let updated = expected.updated.count...(expected.updated.count + perhaps)
            guard told[0] == expected.inserted.count, updated.contains(told[1]),
                (0...expected.perhapsUnchanged.count).contains(
                    told[1] + told[2] - updated.upperBound - expected.unchanged.count),
                told[3] == expected.deleted.count
            else { return "changes of \(name) are \(told), should be \(described(expected))" }
            guard tellsKeys else { continue }
            let keys = ["inserted", "updated", "deleted"].map { word in
                (0..<count(word)).compactMap { answer["keys.\(name).\(word).\($0)"] }.sorted()
            }
            let isRight =
                keys[0] == self.told(expected.inserted) && keys[2] == self.told(expected.deleted)
                && Set(keys[1]).isSuperset(of: self.told(expected.updated))
                && Set(keys[1]).isSubset(of: self.told(expected.updated + expected.perhapsUpdated))
            if !isRight { return "keys of \(name) are \(keys), should be \(described(expected))" }
        }
        return nil
    }

    /// The elements of an array of the answer, each by some of its fields.
    private static func elements(of answer: Message, _ name: String, _ fields: [String]) -> [String] {
        var elements: [String] = []
        while answer["\(name).\(elements.count).\(fields[0])"] != nil {
            let texts = fields.map { answer["\(name).\(elements.count).\($0)"] ?? "none" }
            elements.append(texts.joined(separator: " "))
        }
        return elements
    }

    /// Keys as a message has them: texts without quotes.
    private func told(_ keys: [String]) -> [String] {
        keys.map { key in
            if key.hasPrefix("new "), let rowKey = objects[Int(key.dropFirst(4))!]?.rowKey { return rowKey }
            return key.first == "\"" ? String(key.dropFirst().dropLast()) : key
        }.sorted()
    }

    private func described(_ keys: Effect.Keys) -> String {
        "inserted \(told(keys.inserted)), updated \(told(keys.updated)), perhaps updated \(told(keys.perhapsUpdated)), "
            + "unchanged \(told(keys.unchanged)), deleted \(told(keys.deleted))"
    }
}
