package import BrokerJSON
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
        let entity = try model.entity(named: description.entity, at: "/entity")
        var request = FetchRequest(entity: entity)
        request.plan = self
        request.names = description.names
        request.dates = description.names == .local ? .iso8601 : description.dates
        request.result = description.result
        if let object = description.object { request.key = try key(object, ofEntity: entity, at: "/object") }
        request.isStreamed = try isStreamed(description)
        request.predicate = try predicate(of: description, entity)
        request.limit = try limit(description)
        request.offset = try checked(description.offset, in: 0...Int.max, named: "offset")
        guard description.sort.count <= Self.maximumSortTerms else {
            throw .unsupported(
                "`sort` has \(description.sort.count) attributes; \(Self.maximumSortTerms) are the most.", at: "/sort"
            )
        }
        for (index, text) in description.sort.enumerated() {
            request.sort.append(try sortTerm(text, of: entity, at: "/sort/\(index)"))
        }
        request.after = try after(description, request)
        var left = Self.maximumInclusions
        for (index, text) in description.include.enumerated() {
            let path = Self.keys(text)
            try include(path[...], of: entity, in: &request.inclusions, &left, at: "/include/\(index)")
        }
        request.selection = try selection(description, of: entity)
        request.hasVersions = description.hasVersions
        guard !request.hasVersions || request.selection.isEmpty else {
            throw .unsupported(
                "`select` names all values of the objects, and `versions` asks for more. Omit one of them.",
                at: "/versions")
        }
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

    private func after(_ description: FetchDescription, _ request: FetchRequest) throws(Fault) -> [OwnedCell]? {
        guard let after = description.after else { return nil }
        let (entity, sort) = (request.entity, request.sort)
        guard !sort.isEmpty else { return try position(after, ofEntity: entity, at: "/after") }
        let elements = Array(after.elements)
        guard elements.count == sort.count + 1 else {
            throw Fault(
                .invalidValue,
                "With `sort`, `after` is the `last` of the page before: an array of \(sort.count + 1) values, those of the "
                    + "\(sort.count) sort attributes and the key.", path: "/after", entity: model.entities[entity].name)
        }
        var cells: [OwnedCell] = []
        for (index, element) in elements.enumerated() {
            let pointer = "/after/\(index)"
            if index == sort.count {
                cells += try position(element, ofEntity: entity, at: pointer)
            } else if element.isNull {
                cells.append(OwnedCell(copying: .null))
            } else {
                let end = model.end(of: sort[index].path, from: entity)
                cells.append(
                    try value(element, end, sort[index].attribute, at: pointer) { $0.withoutLimitsAndTransform })
            }
        }
        return cells
    }

    private func isStreamed(_ description: FetchDescription) throws(Fault) -> Bool {
        guard description.isStreamed, description.result != .collection else { return description.isStreamed }
        throw .unsupported(
            "`stream` sends arrays of objects, and `result` asks for \(description.result.rawValue). Omit one of them.",
            at: "/stream")
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
            throw .unsupported("`\(name)` is \(range.lowerBound) \(most), not \(value).\(remedy)", at: "/\(name)")
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
    func path(
        _ keys: [String], from entity: Int, at pointer: String, isToMany: String
    ) throws(Fault) -> (hops: [Int], end: Int) {
        guard keys.count <= Self.maximumPathDepth else {
            throw .unsupported(
                "A key path has at most \(Self.maximumPathDepth) relationships, and this one has \(keys.count).",
                at: pointer)
        }
        var hops: [Int] = []
        var end = entity
        for key in keys {
            let relationship = try relationship(key, of: end, at: pointer, for: .unknownRelationship)
            guard !model.entities[end].relationships[relationship].isToMany else {
                throw .unsupported(
                    "\(model.entities[end].name).\(key) is a to-many relationship, and \(isToMany).", at: pointer)
            }
            hops.append(relationship)
            end = model.entities[end].relationships[relationship].destination
        }
        return (hops, end)
    }

    private func noAttribute(_ name: String, of entity: Entity, at pointer: String) -> Fault {
        guard entity.index(ofRelationship: name) == nil else {
            return .unsupported(
                "\(entity.name).\(name) is a relationship; sort by an attribute of its objects, such as "
                    + "\"\(name).name\".", at: pointer, entity)
        }
        let ending = NearMiss.ending(name.briefly, among: entity.attributes.map(\.name))
        return Fault(
            .unknownAttribute, "\(entity.name) has no attribute \(name.quotedBriefly) to sort by\(ending)",
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
                throw .unsupported(
                    "`include` names more than \(Self.maximumInclusions) relationships. Fetch some of them by "
                        + "themselves.", at: pointer)
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
                : "\(entity.name) has no relationship \(name.quotedBriefly)\(ending)", path: pointer,
            entity: entity.name)
    }
}

extension StagingPlan {
    /// Limit on the selected values; each is a column of the result.
    private static let maximumSelection = 1_000
    /// Limit on the relationships in all selected key paths: each is looked up for each object.
    private static let maximumSelectionLinks = 128

    /// Checks `select`.
    func selection(
        _ description: FetchDescription, of entity: Int
    ) throws(Fault) -> [FetchRequest.SelectedValue] {
        guard !description.select.isEmpty else { return [] }
        guard description.include.isEmpty else {
            throw .unsupported(
                "`select` names all values of the objects, and `include` asks for more. Omit one of them.",
                at: "/include")
        }
        guard description.select.count <= Self.maximumSelection else {
            throw .unsupported(
                "`select` has \(description.select.count) names; \(Self.maximumSelection) are the most.", at: "/select")
        }
        var values: [FetchRequest.SelectedValue] = []
        // By bytes: two names that differ in Unicode form only are two.
        var names: Set<[UInt8]> = []
        var links = 0
        for (index, text) in description.select.enumerated() {
            let value = try selectedValue(text, of: entity, at: "/select/\(index)")
            guard names.insert(Array(text.utf8)).inserted else {
                throw .unsupported("`select` names \(text.quotedBriefly) twice. Name it once.", at: "/select/\(index)")
            }
            links += value.path.count
            guard links <= Self.maximumSelectionLinks else {
                throw .unsupported(
                    "The key paths of `select` have more than \(Self.maximumSelectionLinks) relationships in all. Fetch "
                        + "some of the values by themselves.", at: "/select/\(index)")
            }
            values.append(value)
        }
        return values
    }

    private func selectedValue(
        _ text: String, of entity: Int, at pointer: String
    ) throws(Fault) -> FetchRequest.SelectedValue {
        var keys = Self.keys(text)
        let name = keys.removeLast()
        let (path, end) = try path(
            keys, from: entity, at: pointer,
            isToMany: "a selected value is one of each object; nest its objects by `include`")
        let found = model.entities[end]
        if let attribute = found.index(ofAttribute: name) {
            return FetchRequest.SelectedValue(name: text, path: path, kind: .attribute(attribute))
        }
        guard let relationship = found.index(ofRelationship: name) else {
            let known = found.attributes.map(\.name) + found.relationships.filter { !$0.isToMany }.map(\.name)
            let question = NearMiss.question(name.briefly, among: known)
            throw Fault(
                .unknownAttribute,
                "\(found.name) has no attribute or relationship \(name.quotedBriefly)\(question.isEmpty ? "." : question)",
                path: pointer, entity: found.name)
        }
        _ = try self.path(
            [name], from: end, at: pointer,
            isToMany: "a selected value is one of each object; nest its objects by `include`")
        return FetchRequest.SelectedValue(name: text, path: path, kind: .relationship(relationship))
    }
}

/// Keys and writers of an entity's values, for readers of a store.
extension StagingPlan {
    /// Returns the writer for the stored values of an attribute.
    package func valueWriter(entity: Int, attribute: Int, _ dates: FetchDates) -> ValueWriter {
        ValueWriter(
            model.entities[entity].attributes[attribute], entities[entity].attributes[attribute].converter, dates)
    }

    /// Reads the key of one object as the contract writes it: the identity's value, or an object of attribute names and values
    /// for several attributes; the store's own key where the identity is absent or optional.
    ///
    /// - Throws: `invalidValue`, also for null.
    package func key(_ json: JSONValue, ofEntity index: Int, at pointer: String) throws(Fault) -> [OwnedCell] {
        // A key outside of the attribute's limits is valid, and names no object.
        try key(json, ofEntity: index, at: pointer) { $0.withoutLimits }
    }

    /// Returns a position among the keys, written as a key is. A text is taken as it is, without the attribute's
    /// transforms, which a stored key need not have passed.
    func position(_ json: JSONValue, ofEntity index: Int, at pointer: String) throws(Fault) -> [OwnedCell] {
        try key(json, ofEntity: index, at: pointer) { $0.withoutLimitsAndTransform }
    }

    private func key(
        _ json: JSONValue, ofEntity index: Int, at pointer: String, _ adapt: (ValueConverter) -> ValueConverter
    ) throws(Fault) -> [OwnedCell] {
        let entity = model.entities[index]
        guard !entity.isNamedByRowKey else {
            guard let key = json.int64 else {
                throw Fault(
                    .invalidValue,
                    "Objects of \(entity.name) are found by their _pk, which is an integer and not "
                        + "\(json.kind.phrase).", path: pointer, entity: entity.name)
            }
            return [OwnedCell(copying: .integer(key))]
        }
        guard entity.identity.count > 1 else { return [try value(json, index, entity.identity[0], at: pointer, adapt)] }
        guard json.kind == .object else {
            let names = entity.identity.map { "\"\(entity.attributes[$0].name)\"" }.joined(separator: ", ")
            throw Fault(
                .invalidValue,
                "A key of \(entity.name) is an object with the attributes \(names), not \(json.kind.phrase).",
                path: pointer, entity: entity.name)
        }
        var cells: [OwnedCell] = []
        for attribute in entity.identity {
            let name = entity.attributes[attribute].name
            guard let member = json[name] else {
                throw Fault(
                    .invalidValue, "The key lacks \"\(name)\", a part of the identity of \(entity.name).",
                    path: pointer,
                    entity: entity.name, attribute: name)
            }
            cells.append(try value(member, index, attribute, at: "\(pointer)/\(name.asPointerToken)", adapt))
        }
        return cells
    }

    private func value(
        _ json: JSONValue, _ entity: Int, _ attribute: Int, at pointer: String,
        _ adapt: (ValueConverter) -> ValueConverter
    ) throws(Fault) -> OwnedCell {
        var arena = ByteArena()
        let name = model.entities[entity].name
        let attributeName = model.entities[entity].attributes[attribute].name
        do throws(ValueFault) {
            let converter = adapt(entities[entity].attributes[attribute].converter)
            let cell = try converter.convert(key: json, arena: &arena)
            guard cell.kind != .null else {
                throw ValueFault("An object of \(name) has no key null")
            }
            return OwnedCell(copying: cell)
        } catch {
            throw Fault(.invalidValue, "\(error.message).", path: pointer, entity: name, attribute: attributeName)
        }
    }
}

extension ValueConverter {
    /// The converter for values that are compared and not stored.
    fileprivate var withoutLimits: ValueConverter { adapted(transform) }

    fileprivate var withoutLimitsAndTransform: ValueConverter { adapted(nil) }

    private func adapted(_ transform: TextTransform?) -> ValueConverter {
        ValueConverter(
            name: name, type: type, transform: transform, dates: dates, scale: scale, limits: ValueLimits(),
            defaultCell: nil)
    }
}

extension Model {
    /// The entity to which relationships lead, one after the other.
    package func end(of path: [Int], from entity: Int) -> Int {
        path.reduce(entity) { entities[$0].relationships[$1].destination }
    }
}

extension Fault {
    fileprivate static func unsupported(_ message: String, at path: String, _ entity: Entity? = nil) -> Fault {
        Fault(.unsupportedMessage, message, path: path, entity: entity?.name)
    }
}

/// A fetch that a model can answer; all names are resolved.
package struct FetchRequest: Sendable {
    /// Orders objects by an attribute: the entity's own, or one at the end of to-one relationships.
    package struct SortTerm: Sendable, Equatable {
        /// Indices of relationships: the first of the fetched entity, each next one of the previous destination.
        package var path: [Int]
        /// Index in the entity at the end of the path.
        package var attribute: Int
        package var isDescending: Bool
    }

    /// A relationship whose objects are nested, with the relationships nested in those.
    package struct Inclusion: Sendable {
        package var relationship: Int
        package var inclusions: [Inclusion]
    }

    /// A value that the objects have by the name with which a client selected it.
    package struct SelectedValue: Sendable, Equatable {
        package enum Kind: Sendable, Equatable {
            /// Index in the entity at the end of the path.
            case attribute(Int)
            /// The key of the object to which this relationship of the entity at the end of the path leads.
            case relationship(Int)
        }

        package var name: String
        /// To-one relationships, as of ``SortTerm/path``.
        package var path: [Int]
        package var kind: Kind
    }

    /// The plan that resolved the names; nil for a request without one.
    package internal(set) var plan: StagingPlan?
    package var entity: Int
    /// The predicate of the objects; nil for all.
    package var predicate: Predicate?
    /// The key values of the one object to fetch; nil for all.
    package var key: [OwnedCell]?
    /// The position after which the objects come: the values of its `sort` terms, and those of its key; nil from the first.
    package var after: [OwnedCell]?
    package var sort: [SortTerm] = []
    /// `Int.max` for all objects.
    package var limit = FetchDescription.defaultLimit
    package var offset = 0
    package var inclusions: [Inclusion] = []
    /// The only values of the objects; empty for whole objects. Not with inclusions.
    package var selection: [SelectedValue] = []
    package var names = FetchNames.remote
    package var dates = FetchDates.model
    package var result = FetchResult.collection
    /// The objects come in several answers.
    package var isStreamed = false
    /// Each object has its version. Not with a selection.
    package var hasVersions = false

    /// A fetch of all objects of an entity.
    package init(entity: Int) { self.entity = entity }
}
