internal import BrokerJSON
package import BrokerModel

extension StagingPlan {
    /// Limit on the relationships in all paths of an `include`: each is a query of its own.
    private static let maximumInclusions = 128
    /// Limit on the sort attributes.
    private static let maximumSortTerms = 64
    /// Limit on the relationships from an object to a sort attribute or a selected value.
    private static let maximumPathDepth = 16

    /// Checks a fetch against the model.
    ///
    /// - Throws: `unknownEntity`, `unknownRelationship`, `invalidPredicate`, `invalidValue` for an invalid key, or
    ///   `unsupportedMessage`, with the path into the message.
    package func fetchRequest(_ description: FetchDescription) throws(Fault) -> FetchRequest {
        guard let entity = model.index(ofEntity: description.entity) else {
            let ending = NearMiss.ending(description.entity.briefly, among: model.entities.map(\.name))
            let known = model.entities.map(\.name).sorted().prefix(20).joined(separator: ", ")
            throw Fault(
                .unknownEntity,
                "The model has no entity \(description.entity.quotedBriefly)\(ending) "
                    + "It has: \(known).",
                path: "/entity", entity: description.entity.briefly)
        }
        var request = FetchRequest(entity: entity)
        request.plan = self
        request.names = description.names
        request.dates = description.names == .local ? .iso8601 : description.dates
        request.result = description.result
        if let object = description.object { request.key = try key(object, ofEntity: entity, at: "/object") }
        request.after = try after(description, entity)
        request.isStreamed = try isStreamed(description)
        request.predicate = try predicate(of: description, entity)
        request.limit = try limit(description)
        request.offset = try checked(description.offset, in: 0...Int.max, named: "offset")
        guard description.sort.count <= Self.maximumSortTerms else {
            throw Fault(
                .unsupportedMessage,
                "`sort` has \(description.sort.count) attributes; \(Self.maximumSortTerms) are the most.", path: "/sort"
            )
        }
        for (index, text) in description.sort.enumerated() {
            request.sort.append(try sortTerm(text, of: entity, at: "/sort/\(index)"))
        }
        var left = Self.maximumInclusions
        for (index, text) in description.include.enumerated() {
            let path = Self.keys(text)
            try include(path[...], of: entity, in: &request.inclusions, &left, at: "/include/\(index)")
        }
        request.selection = try selection(description, of: entity)
        return request
    }

    private func predicate(of description: FetchDescription, _ entity: Int) throws(Fault) -> Predicate? {
        guard let text = description.predicate else { return nil }
        do throws(Fault) {
            return try model.predicate(text, arguments: description.arguments, ofEntity: entity)
        } catch {
            throw error.at(error.path ?? "/where")
        }
    }

    private func after(_ description: FetchDescription, _ entity: Int) throws(Fault) -> [OwnedCell]? {
        guard let after = description.after else { return nil }
        guard description.sort.isEmpty else {
            throw Fault(
                .unsupportedMessage,
                "`after` continues in the order of the keys, and `sort` asks for another order. Omit one of them; in "
                    + "another order, use `stream`, or `where` with the value of the last object.", path: "/after")
        }
        return try position(after, ofEntity: entity, at: "/after")
    }

    private func isStreamed(_ description: FetchDescription) throws(Fault) -> Bool {
        guard description.isStreamed, description.result != .collection else { return description.isStreamed }
        throw Fault(
            .unsupportedMessage,
            "`stream` sends arrays of objects, and `result` asks for \(description.result.rawValue). Omit one of them.",
            path: "/stream")
    }

    private func limit(_ description: FetchDescription) throws(Fault) -> Int {
        guard !description.isStreamed, description.result != .count else { return description.limit ?? .max }
        return try checked(
            description.limit ?? FetchDescription.defaultLimit, in: FetchDescription.limits, named: "limit")
    }

    private func checked(_ value: Int, in range: ClosedRange<Int>, named name: String) throws(Fault) -> Int {
        guard range.contains(value) else {
            let most = range.upperBound == .max ? "or more" : "to \(range.upperBound)"
            let remedy = name == "limit" ? " Fetch the rest with `after`, or all with `stream`." : ""
            throw Fault(
                .unsupportedMessage, "`\(name)` is \(range.lowerBound) \(most), not \(value).\(remedy)",
                path: "/\(name)")
        }
        return value
    }

    static func keys(_ path: String) -> [String] {
        path.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { String(Substring($0)) }
    }

    // MARK: - Sorting

    private func sortTerm(_ text: String, of entity: Int, at pointer: String) throws(Fault) -> FetchRequest.SortTerm {
        let isDescending = text.utf8.first == UInt8(ascii: "-")
        var keys = Self.keys(isDescending ? String(Substring(text.utf8.dropFirst())) : text)
        let name = keys.removeLast()
        let (path, end) = try path(
            keys, from: entity, at: pointer,
            isToMany: "objects are sorted by one value each; sort by attributes at the end of to-one relationships")
        guard let attribute = model.entities[end].index(ofAttribute: name) else {
            throw noAttribute(name, of: model.entities[end], at: pointer)
        }
        return FetchRequest.SortTerm(path: path, attribute: attribute, isDescending: isDescending)
    }

    /// Follows to-one relationships.
    ///
    /// - Parameter isToMany: why a to-many relationship is refused, and the remedy.
    /// - Returns: their indices, and the entity at their end.
    func path(
        _ keys: [String], from entity: Int, at pointer: String, isToMany: String
    ) throws(Fault) -> (hops: [Int], end: Int) {
        guard keys.count <= Self.maximumPathDepth else {
            throw Fault(
                .unsupportedMessage,
                "A key path has at most \(Self.maximumPathDepth) relationships, and this one has \(keys.count).",
                path: pointer)
        }
        var hops: [Int] = []
        var end = entity
        for key in keys {
            let relationship = try relationship(key, of: end, at: pointer, for: .unsupportedMessage)
            guard !model.entities[end].relationships[relationship].isToMany else {
                throw Fault(
                    .unsupportedMessage,
                    "\(model.entities[end].name).\(key) is a to-many relationship, and \(isToMany).", path: pointer)
            }
            hops.append(relationship)
            end = model.entities[end].relationships[relationship].destination
        }
        return (hops, end)
    }

    private func noAttribute(_ name: String, of entity: Entity, at pointer: String) -> Fault {
        guard entity.index(ofRelationship: name) == nil else {
            return Fault(
                .unsupportedMessage,
                "\(entity.name).\(name) is a relationship; sort by an attribute of its objects, such as "
                    + "\"\(name).name\".", path: pointer, entity: entity.name)
        }
        let ending = NearMiss.ending(name.briefly, among: entity.attributes.map(\.name))
        return Fault(
            .unsupportedMessage,
            "\(entity.name) has no attribute \(name.quotedBriefly) to sort by\(ending)",
            path: pointer, entity: entity.name)
    }

    // MARK: - Nesting

    private func include(
        _ keys: ArraySlice<String>, of entity: Int, in inclusions: inout [FetchRequest.Inclusion], _ left: inout Int,
        at pointer: String
    ) throws(Fault) {
        guard let key = keys.first else { return }
        let relationship = try relationship(key, of: entity, at: pointer, for: .unknownRelationship)
        let destination = model.entities[entity].relationships[relationship].destination
        let position: Int
        if let known = inclusions.firstIndex(where: { $0.relationship == relationship }) {
            position = known
        } else {
            guard left > 0 else {
                throw Fault(
                    .unsupportedMessage,
                    "`include` names more than \(Self.maximumInclusions) relationships. Fetch some of them by "
                        + "themselves.", path: pointer)
            }
            left -= 1
            inclusions.append(FetchRequest.Inclusion(relationship: relationship, inclusions: []))
            position = inclusions.count - 1
        }
        try include(keys.dropFirst(), of: destination, in: &inclusions[position].inclusions, &left, at: pointer)
    }

    private func relationship(
        _ name: String, of entity: Int, at pointer: String, for code: FaultCode
    ) throws(Fault) -> Int {
        let entity = model.entities[entity]
        if let relationship = entity.index(ofRelationship: name) { return relationship }
        let ending = NearMiss.ending(name.briefly, among: entity.relationships.map(\.name))
        let isAttribute = entity.index(ofAttribute: name) != nil
        throw Fault(
            code,
            isAttribute
                ? "\(entity.name).\(name) is an attribute and no relationship."
                : "\(entity.name) has no relationship \(name.quotedBriefly)\(ending)",
            path: pointer, entity: entity.name)
    }
}
