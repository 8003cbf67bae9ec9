import BrokerJSON

/// An attribute as the model gives it, before it is known whether it is part of an identity.
struct AttributeDraft {
    var attribute: Attribute
    let key: ModelNode
    /// False when the model gives no known type; then the attribute has a substitute.
    var isTyped = false
    /// The position of `optional`; nil without one.
    var optional: ModelNode?
    /// The position of the default, which may be null.
    var defaultNode: ModelNode?
    var isIndexed = false
    var isUnique = false
    /// The position of the former name.
    var renamedFrom: ModelNode?
}

/// Reads one attribute: a type name, or an object.
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
        let name = draft.attribute.name
        draft.attribute.description = fields.description
        draft.attribute.keyPaths = KeyPaths.read(fields["key"], name: name, style: keyStyle, mayNameHolder: true)
        draft.optional = fields["optional"]
        draft.attribute.isOptional = fields["optional"]?.bool() ?? true
        draft.attribute.onInvalid = fields["onInvalid"]?.choice() ?? .fail
        draft.isIndexed = fields.flag("indexed")
        draft.isUnique = fields.flag("unique")
        draft.defaultNode = fields["default"]
        draft.renamedFrom = fields["renamedFrom"]
        draft.attribute.renamedFrom = draft.renamedFrom?.string()
        let type = draft.isTyped ? draft.attribute.type : nil
        draft.attribute.defaultValue = readDefault(fields, type: type, isOptional: draft.attribute.isOptional)
        draft.attribute.usesDefaultWhenMissing = fields.flag("defaultWhenMissing")
        if draft.attribute.usesDefaultWhenMissing, fields["default"]?.value.isNull ?? true {
            fields["defaultWhenMissing"]?.report(
                "there is no default that could be used; add \"default\", or take this out")
        }
        readDates(fields, type: type, into: &draft.attribute)
        readStorage(fields, type: type, into: &draft.attribute)
        draft.attribute.constraints = ConstraintsReader(fields: fields, type: type).read()
        draft.attribute.transforms = readTransforms(fields, type: type)
    }

    private func setType(from node: ModelNode, of draft: inout AttributeDraft) {
        guard let type: AttributeType = node.choice() else { return }
        draft.attribute.type = type
        draft.isTyped = true
    }

    /// A default of null is no default; an optional attribute without one is null.
    private func readDefault(_ fields: ModelFields, type: AttributeType?, isOptional: Bool) -> JSONFragment? {
        guard let node = fields["default"] else { return nil }
        if node.value.isNull {
            if !isOptional {
                node.report("a required attribute cannot be null by default; give a value, or \"optional\": true")
            }
            return nil
        }
        return node.fragment(for: type)
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

    private func readTransforms(_ fields: ModelFields, type: AttributeType?) -> [Transform] {
        fields.refuse("transform", unless: type?.isText, isFor: "text")
        let nodes = fields["transform"]?.oneOrMore(expected: "an array of transforms", mayBeEmpty: true) ?? []
        return nodes.compactMap { $0.choice() }
    }
}

extension ModelFields {
    /// Reports a field that has no meaning for the attribute's type; nil is an unknown type.
    func refuse(_ name: String, unless isApplicable: Bool?, isFor subject: String) {
        guard isApplicable == false, let node = self[name] else { return }
        node.report("\"\(name)\" is for \(subject); take it out, or give the attribute another type")
    }
}

extension ModelNode {
    /// The value as it was written, when its kind can become that type; nil is an unknown type.
    func fragment(for type: AttributeType?) -> JSONFragment? {
        if let type, !type.canComeFrom(value.kind) {
            report("\(value.kind.phrase) cannot become a value of type \(type.rawValue)")
            return nil
        }
        var writer = JSONWriter()
        value.write(to: &writer)
        return JSONFragment(String(decoding: writer.bytes, as: UTF8.self))
    }
}

extension AttributeType {
    /// Its values are strings in JSON, and have a length.
    var isText: Bool { self == .string || self == .uri || self == .uuid }

    /// Whether any value of that JSON kind can be converted; the conversion may still refuse a value.
    func canComeFrom(_ kind: JSONValue.Kind) -> Bool {
        switch kind {
        case .string: true
        case .number: isNumber || self == .string || self == .boolean || self == .date || self == .transformable
        case .true, .false: isNumber || self == .string || self == .boolean || self == .transformable
        case .null, .array, .object: self == .transformable
        }
    }

    static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
