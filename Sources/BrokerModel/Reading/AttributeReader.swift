import BrokerJSON

/// An attribute as the model gives it, before it is known whether it is part of an identity.
struct AttributeDraft {
    var attribute: Attribute
    let key: ModelNode
    var fields: ModelFields?
    /// False when the model gives no known type; then the attribute has a substitute.
    var isTyped = false
    var isIndexed = false
    var isUnique = false
}

struct AttributeReader {
    let keyStyle: KeyStyle

    /// There is always a draft, even with faults, so that one fault does not make the attribute unknown elsewhere.
    func read(_ member: ModelMember) -> AttributeDraft {
        if let fault = ModelName.fault(ofProperty: member.name) { member.key.report(fault) }
        var draft = AttributeDraft(
            attribute: Attribute(name: member.name, type: .string, place: member.node.place), key: member.key)
        draft.attribute.keyPaths = KeyPaths.read(nil, name: member.name, style: keyStyle)
        switch member.node.value.kind {
        case .string: setType(from: member.node, of: &draft)
        case .object:
            guard let fields = ModelFields(of: member.node, vocabulary: .attribute) else { break }
            read(fields, into: &draft)
        default: member.node.reportExpected("a type name like \"string\" or an object that describes an attribute")
        }
        return draft
    }

    private func read(_ fields: ModelFields, into draft: inout AttributeDraft) {
        if let type = fields["type"] {
            setType(from: type, of: &draft)
        } else {
            fields.node.report("an attribute needs a \"type\"; add one of \(AttributeType.list)")
        }
        draft.fields = fields
        draft.attribute.description = fields.description
        draft.attribute.renamedFrom = fields["renamedFrom"]?.string()
        let former = draft.attribute.formerPath == nil ? draft.attribute.renamedFrom : nil
        draft.attribute.keyPaths = KeyPaths.read(
            fields["key"], name: former ?? draft.attribute.name, style: keyStyle, mayNameHolder: true)
        draft.attribute.isOptional = fields["optional"]?.bool() ?? true
        draft.attribute.onInvalid = fields["onInvalid"]?.choice() ?? .fail
        draft.isIndexed = fields.flag("indexed")
        draft.isUnique = fields.flag("unique")
        let type = draft.isTyped ? draft.attribute.type : nil
        // A default of null is no default; an optional attribute without one is null.
        if let node = fields["default"], !node.value.isNull {
            draft.attribute.defaultValue = node.fragment(for: type)
        } else if !draft.attribute.isOptional {
            fields["default"]?.report(
                "a required attribute cannot be null by default; give a value, or \"optional\": true")
        }
        draft.attribute.usesDefaultWhenMissing = fields.flag("defaultWhenMissing")
        if draft.attribute.usesDefaultWhenMissing, fields["default"]?.value.isNull ?? true {
            fields["defaultWhenMissing"]?.report(
                "there is no default that could be used; add \"default\", or take this out")
        }
        readDates(fields, type: type, into: &draft.attribute)
        readStorage(fields, type: type, into: &draft.attribute)
        draft.attribute.constraints = readConstraints(fields, type: type)
        fields.refuse("transform", unless: type?.isText, isFor: "text")
        let transforms = fields["transform"]?.oneOrMore(expected: "an array of transforms", mayBeEmpty: true) ?? []
        draft.attribute.transforms = transforms.compactMap { $0.choice() }
    }

    private func setType(from node: ModelNode, of draft: inout AttributeDraft) {
        guard let type: AttributeType = node.choice() else { return }
        draft.attribute.type = type
        draft.isTyped = true
    }

    private func readDates(_ fields: ModelFields, type: AttributeType?, into attribute: inout Attribute) {
        for name in ["format", "formats"] { fields.refuse(name, unless: type?.isDate, isFor: "dates") }
        fields.refuse("timeZone", unless: type.map { $0 == .date }, isFor: "dates with a time")
        if let format = fields["format"]?.string() { attribute.dateFormats = [format] }
        if let formats = fields["formats"] {
            if fields["format"] != nil {
                formats.report("\"format\" and \"formats\" say the same; put all of them into \"formats\"")
            }
            attribute.dateFormats =
                formats.elements(expected: "an array of date formats", mayBeEmpty: true)?
                .compactMap { $0.string() } ?? []
        }
        attribute.timeZone = fields["timeZone"]?.string()
        fields.refuse("precision", unless: type.map { $0 == .date }, isFor: "dates with a time")
        guard type == .date, let node = fields["precision"], let precision = node.count() else { return }
        if fields["storage"].map({ $0.value.string != DateStorage.iso8601.rawValue }) ?? false {
            node.report(
                "\"precision\" is for dates that are stored as text: \"unix\" stores whole seconds, and \"coreData\" a "
                    + "double; take it out, or \"storage\"")
        } else if ![0, 3, 6, 9].contains(precision) {
            node.report("a \"precision\" is 0, 3, 6 or 9, the digits after the second's point; write one of these")
        } else {
            attribute.precision = precision
        }
    }

    private func readStorage(_ fields: ModelFields, type: AttributeType?, into attribute: inout Attribute) {
        fields.refuse(
            "storage", unless: type.map { $0 == .date || $0 == .decimal }, isFor: "dates with a time and decimals")
        if type == .date { attribute.dateStorage = fields["storage"]?.choice() ?? .iso8601 }
        let storage: DecimalStorage? = type == .decimal ? fields["storage"]?.choice() : nil
        guard storage == .scaled else {
            guard type != nil else { return }
            fields["scale"]?.report("\"scale\" is for decimals with \"storage\": \"scaled\"; take it out")
            return
        }
        guard let node = fields["scale"] else {
            fields["storage"]?.report(
                "\"scaled\" needs a \"scale\", the digits after the point; add it, as 2 for cents")
            return
        }
        guard let scale = node.count() else { return }
        guard scale <= Self.largestScale else {
            return node.report(
                "a \"scale\" is at most \(Self.largestScale), because 64 bits have no more digits; lower it")
        }
        attribute.decimalScale = scale
    }

    /// The digits that every integer of 64 bits has.
    private static let largestScale = 18

    /// Whether the values themselves can be converted is checked when they are compiled.
    private func readConstraints(_ fields: ModelFields, type: AttributeType?) -> ValueConstraints {
        for name in ["min", "max"] {
            fields.refuse(name, unless: type.map { $0.isNumber || $0.isDate }, isFor: "numbers and dates")
        }
        for name in ["minLength", "maxLength", "pattern"] {
            fields.refuse(name, unless: type?.isText, isFor: "text")
        }
        func bound(_ name: String) -> JSONFragment? {
            guard let node = fields[name] else { return nil }
            guard node.value.kind == .number || node.value.kind == .string else {
                return node.refuseExpected(type?.isDate == true ? "a date" : "a number")
            }
            return node.fragment(for: nil)
        }
        var constraints = ValueConstraints(
            minimum: bound("min"), maximum: bound("max"), minimumLength: fields["minLength"]?.count(),
            maximumLength: fields["maxLength"]?.count())
        if let minimum = constraints.minimumLength, let maximum = constraints.maximumLength, minimum > maximum {
            fields["minLength"]?.report(
                "\"minLength\" \(minimum) and \"maxLength\" \(maximum) allow no value; raise \"maxLength\"")
        }
        constraints.pattern = fields["pattern"]?.string()
        let allowed = fields["enum"]?.elements(expected: "an array of the allowed values") ?? []
        constraints.allowed = allowed.compactMap { node in
            guard node.value.isNull else { return node.fragment(for: type) }
            return node.refuse("null needs no place among the allowed values; say \"optional\": true instead")
        }
        return constraints
    }
}

extension ModelNode {
    /// The keys of a path; nil, with a report, when one is empty.
    func keyPath(_ text: String) -> [String]? {
        let keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard keys.contains("") else { return keys }
        return refuse(
            "the key path \"\(text)\" has an empty key; take out the dot too many, or write an array of its keys as they are: "
                + "[[\"a\", \"\"]]")
    }

    /// The value as it was written, when its kind can become that type; nil is an unknown type.
    func fragment(for type: AttributeType?) -> JSONFragment? {
        if let type, !type.traits.sources.contains(value.kind) {
            return refuse("\(value.kind.phrase) cannot become a value of type \(type.rawValue)")
        }
        var writer = JSONWriter()
        value.write(to: &writer)
        return JSONFragment(String(decoding: writer.bytes, as: UTF8.self))
    }
}

/// Checks the attributes whose values come from the record around their own (``HolderValue``).
struct HolderCheck {
    let drafts: [EntityDraft]
    let entities: [Entity]

    func check() {
        lazy var relationships = HolderRelationships(entities)
        for (index, draft) in drafts.enumerated() {
            for attribute in draft.attributes where attribute.attribute.holderValue != nil {
                check(attribute, of: index, relationships)
            }
        }
    }

    private func check(_ draft: AttributeDraft, of entity: Int, _ relationships: HolderRelationships) {
        let attribute = draft.attribute
        let values = attribute.keyPaths.compactMap(HolderValue.init)
        guard let value = values.first, draft.isTyped else { return }
        if values.count > 1 {
            draft.key.report(
                "\"\(attribute.name)\" has the keys \(values.map { "\"\($0.text)\"" }.joined(separator: " and ")), and an "
                    + "attribute takes one value from the record around its own; take one out")
        }
        let holders = relationships.holders(of: entity)
        if value == .content {
            if attribute.type != .string {
                draft.key.report("\"\(value.text)\" is a text; give \"\(attribute.name)\" the type string")
            }
            return
        }
        guard !holders.isEmpty else {
            return draft.key.report(
                "no relationship leads to \(entities[entity].name), so there is no record around its own that "
                    + "\"\(value.text)\" could mean; add the relationship, or take this key out")
        }
        switch value {
        case .position:
            if attribute.type != .integer32, attribute.type != .integer64 {
                draft.key.report(
                    "\"\(value.text)\" is a position; give \"\(attribute.name)\" the type integer32 or integer64")
            }
        case .content: break
        case .attribute(let name):
            for holder in holders where holder.destination == entity { check(draft, name, holder) }
        }
    }

    private func check(_ draft: AttributeDraft, _ name: String, _ holder: HolderRelationship) {
        let entity = entities[holder.entity]
        let path = "\"\(HolderValue.attribute(name).text)\""
        let leads = "\(entity.name).\(entity.relationships[holder.relationship].name) leads here"
        guard let place = entity.identity.first(where: { entity.attributes[$0].name.hasSameBytes(as: name) }) else {
            let names = entity.identity.map { "\"@parent.\(entity.attributes[$0].name)\"" }.joined(separator: ", ")
            return draft.key.report(
                "\(leads), and \"\(name)\" is no attribute of the identity of \(entity.name), as \(path) needs; "
                    + (names.isEmpty ? "give \(entity.name) an identity" : "write \(names)"))
        }
        let (own, other) = (draft.attribute, entity.attributes[place])
        if !own.isStored(like: other) {
            let form =
                other.type == .date
                ? "date with the storage \(other.dateStorage.rawValue) and the precision \(other.precision)"
                : other.type.rawValue
            draft.key.report(
                "\(leads), and its \"\(name)\" is \(form); \"\(own.name)\" has the key \(path) and needs the same type")
        }
    }
}
