package import BrokerJSON
package import BrokerModel

/// Keys and writers of an entity's values, for readers of a store.
extension StagingPlan {
    /// Returns the writer for the stored values of an attribute.
    package func valueWriter(entity: Int, attribute: Int, _ dates: FetchDates) -> ValueWriter {
        ValueWriter(
            model.entities[entity].attributes[attribute], entities[entity].attributes[attribute].converter, dates)
    }

    /// Returns the key of one object as the contract writes it: the identity's value, or an object of attribute names
    /// and values for several attributes; the store's own key where the identity is absent or optional.
    ///
    /// - Parameter pointer: path of the key in the message, a JSON Pointer.
    /// - Returns: the values of the key's columns.
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
                throw ValueFault(reason: .inconvertible, message: "An object of \(name) has no key null")
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
