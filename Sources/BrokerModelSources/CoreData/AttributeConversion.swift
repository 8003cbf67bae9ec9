internal import BrokerJSON
internal import BrokerModel
internal import Foundation

/// Writes one attribute in the model's form.
struct AttributeConversion {
    let source: AttributeSource
    /// Nil where the name says it.
    let keys: [String]?
    let isIdentity: Bool

    private var element: SourceElement { source.element }
    private var report: ElementReport { source.report }

    func value() -> ModelValue {
        var writer = DocumentWriter(at: element.place)
        writer.add("type", source.type.rawValue)
        writer.addKey(keys, of: element, source.name)
        if source.prefixes == nil {
            writer.addRenamed(from: element, to: source.name, report)
        } else if let renamed = element.renamed(to: source.name) {
            report.leftOut("renaming identifier \(renamed): parts of composites are not renamed")
        }
        if isIdentity, source.isOptional {
            report.inferred("required, though the model says optional: it is of the identity")
        } else if !isIdentity, !source.isOptional {
            writer.add("optional", false)
        }
        addDefault(to: &writer)
        addFormat(to: &writer)
        addPattern(to: &writer)
        addLimits(to: &writer)
        if element.flag("indexed") == true { writer.add("indexed", true) }
        if let name = element.text("valueTransformerName") {
            report.leftOut("value transformer \(name): the value is stored as the JSON that is received")
        }
        source.userInfo.noteUnfollowed(as: .attribute, on: report)
        return writer.object
    }

    private func addFormat(to writer: inout DocumentWriter) {
        let keys = UserInfo.failover("dateFormat").filter { source.userInfo[$0] != nil }
        guard !keys.isEmpty else { return }
        let formats = keys.compactMap { source.userInfo[$0] }.map { format in
            // Versions of MagicalRecord have the constant under two names.
            format == "unixTime13" ? "UnixTime" : format
        }
        let shown = "userInfo \(keys.joined(separator: ", "))"
        guard source.type == .date else { return report.passedOver("\(shown): the attribute is no date") }
        if formats.count == 1 { writer.add("format", formats[0]) } else { writer.add("formats", formats) }
        let unixTime = "seconds since 1970, or with 13 digits or more milliseconds"
        report.taken(
            "\(shown): \(formats.joined(separator: ", "))" + (formats.contains("UnixTime") ? ", \(unixTime)" : ""))
    }

    // MARK: - Defaults

    private func addDefault(to writer: inout DocumentWriter) {
        let value = defaultValue()
        writer.add("default", value)
        guard source.userInfo.flag("useDefaultValueWhenNotPresent") else { return }
        guard value != nil else {
            return report.passedOver("userInfo useDefaultValueWhenNotPresent: the attribute has no default")
        }
        writer.add("defaultWhenMissing", true)
        report.taken("userInfo useDefaultValueWhenNotPresent: a record that does not bring it brings the default")
    }

    private func defaultValue() -> ModelValue? {
        let text = source.type == .date ? element["defaultDateTimeInterval"] : element["defaultValueString"]
        guard let text else {
            if let stray = element["defaultValue"] {
                report.passedOver("defaultValue \"\(stray)\": Core Data reads defaultValueString")
            }
            return nil
        }
        guard !isIdentity else {
            report.passedOver("the default \"\(text)\": all records without an identity would be one object")
            return nil
        }
        if text.isEmpty, source.type != .string {
            report.passedOver("the default, which is empty")
            return nil
        }
        switch source.type {
        case .boolean:
            guard let flag = SourceElement.flag(text) else { break }
            return ModelValue(.bool(flag), at: element.place)
        case .date: return date(text, "default")
        case .binary, .transformable:
            report.leftOut("the default: Core Data has none of this type")
            return nil
        default: break
        }
        return plainValue(text)
    }

    /// A number of JSON's, where the type is one and the text is written as one; else the text.
    private func plainValue(_ text: String) -> ModelValue {
        let isNumber =
            source.type.isNumber && text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/) != nil
        return ModelValue(isNumber ? .number(text) : .string(text), at: element.place)
    }

    /// Core Data counts seconds since 2001; the model gives the date as text.
    private func date(_ text: String, _ what: String) -> ModelValue? {
        guard let seconds = Double(text), seconds >= Self.firstSecond, seconds < Self.endOfSeconds else {
            report.fault("the \(what) \"\(text)\" is no number of seconds since 2001 within the years 1 to 9999")
            return nil
        }
        let date = Date(timeIntervalSinceReferenceDate: (seconds * 1_000).rounded(.down) / 1_000)
        let iso = Date.ISO8601FormatStyle(includingFractionalSeconds: seconds.rounded() != seconds).format(date)
        return ModelValue(.string(iso), at: element.place)
    }

    /// 0001-01-01 and 10000-01-01, in seconds since 2001-01-01.
    private static let firstSecond = -63_114_076_800.0
    private static let endOfSeconds = 252_423_993_600.0

    // MARK: - Limits

    private func addLimits(to writer: inout DocumentWriter) {
        let isDate = source.type == .date
        let bounds = [
            ("min", "minLength", isDate ? "minDateTimeInterval" : "minValueString"),
            ("max", "maxLength", isDate ? "maxDateTimeInterval" : "maxValueString"),
        ]
        for (bound, length, attribute) in bounds {
            guard let text = element.text(attribute) else { continue }
            switch source.type {
            case .date: writer.add(bound, date(text, attribute))
            case .string, .uri, .uuid:
                guard let number = Double(text), let count = Int(exactly: number), count >= 0 else {
                    report.fault("\(attribute)=\"\(text)\" of a text is its length, a whole number from 0 on")
                    continue
                }
                writer.add(length, number: count)
            case let type where type.isNumber: writer.add(bound, plainValue(text))
            default: report.leftOut("\(attribute)=\"\(text)\": values of type \(source.type.rawValue) have no limits")
            }
        }
    }

    private func addPattern(to writer: inout DocumentWriter) {
        guard let pattern = element.text("regularExpressionString") else { return }
        guard source.type == .string || source.type == .uri || source.type == .uuid else {
            return report.leftOut("the regular expression: values of type \(source.type.rawValue) are no text")
        }
        // Core Data's must match the whole value, a model's some part of it.
        writer.add("pattern", "\\A(?:\(pattern))\\z")
    }
}

/// An attribute that the model is to have: one of an entity's, or a part of a composite one.
struct AttributeSource {
    let name: String
    let type: AttributeType
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport
    /// The key paths of the enclosing composite; nil for an attribute of the entity itself.
    let prefixes: [String]?
    let isOptional: Bool
}

/// Finds the attributes of entities: flattens composites, and skips properties without a column.
struct AttributeReading {
    /// The composites of the model by name.
    private let composites: [String: SourceElement]
    /// Parts of composites that may still be read, in all attributes: a few composites of composites may have any number. Long
    /// keys count as several. Negative once that was reported.
    private var partsLeft = ModelLimits.mostPropertiesInAll
    /// Bytes of keys that count as a part.
    private static let keyBytesPerPart = 64

    init(model: SourceElement) {
        let elements = model.children.filter { $0.name == "composite" || $0.name == "compositeAttribute" }
        composites = Dictionary(
            elements.compactMap { element in element["name"].map { ($0, element) } },
            uniquingKeysWith: { first, _ in first })
    }

    mutating func attributes(of entity: EntitySource) -> [AttributeSource] {
        var found: [AttributeSource] = []
        for attribute in entity.element.children(named: "attribute") {
            guard let name = attribute.text("name") else {
                entity.report.part(at: attribute.place).fault("an attribute needs a name; give it one in Xcode")
                continue
            }
            found += read(attribute, name: name, within: Around(entity: entity))
        }
        return found
    }

    /// The enclosing part of an attribute.
    private struct Around {
        let entity: EntitySource
        var prefixes: [String]?
        var isOptional = false
        /// The composites by name, outermost first.
        var composites: [String] = []
    }

    private mutating func read(
        _ element: SourceElement, name: String, within around: Around
    ) -> [AttributeSource] {
        let report = around.entity.report.part("attributes", name, at: element.place)
        if element.flag("transient") == true {
            report.leftOut("the attribute is transient: Core Data does not store it either")
            return []
        }
        if element.flag("derived") == true || element["derivationExpression"] != nil {
            let expression = element["derivationExpression"].map { " (\($0))" } ?? ""
            report.leftOut("the attribute is derived\(expression): its value follows from others")
            return []
        }
        let isOptional = around.isOptional || element.flag("optional") == true
        let written = element["attributeType"] ?? "Undefined"
        func source(_ type: AttributeType) -> AttributeSource {
            AttributeSource(
                name: name, type: type, element: element, userInfo: UserInfo(of: element), report: report,
                prefixes: around.prefixes, isOptional: isOptional)
        }
        switch Self.folded(written) {
        case "objectid":
            report.leftOut("values of type ObjectID are addresses within one Core Data store")
            return []
        case "composite":
            return flatten(source(.transformable), within: around)
        case "undefined":
            report.inferred("type Undefined: any JSON is stored, as transformable")
            return [source(.transformable)]
        case let folded:
            guard let type = Self.types[folded] else {
                let question = NearMiss.question(written, among: Self.spellings)
                report.fault(
                    "\"\(written)\" is no attribute type of Core Data's" + question
                        + (question.isEmpty ? "; one of \(Self.spellings.joined(separator: ", ")) is" : ""))
                return [source(.string)]
            }
            return [source(type)]
        }
    }

    /// `Integer 64`, `integer64`, `Integer64AttributeType`: versions of Xcode and tools of others differ.
    private static func folded(_ type: String) -> String {
        let folded = type.lowercased().filter { !$0.isWhitespace }
        return folded.hasSuffix("attributetype") ? String(folded.dropLast(13)) : folded
    }

    private static let spellings = [
        "Integer 16", "Integer 32", "Integer 64", "Decimal", "Double", "Float", "String", "Boolean", "Date", "Binary",
        "UUID", "URI", "Transformable", "Composite",
    ]

    private static let types: [String: AttributeType] = {
        var types = Dictionary(uniqueKeysWithValues: AttributeType.allCases.map { ($0.rawValue, $0) })
        types["binarydata"] = .binary
        return types
    }()

    // MARK: - Composites

    private mutating func flatten(_ composite: AttributeSource, within around: Around) -> [AttributeSource] {
        let report = composite.report
        guard let (definition, type) = definition(of: composite) else {
            report.leftOut(
                "the attribute is composite, and the model does not say of what; "
                    + "an override may give the attributes of its parts")
            return []
        }
        guard !around.composites.contains(type) else {
            report.fault(
                "the composite \"\(type)\" holds itself, by way of "
                    + (around.composites + [type]).joined(separator: " → ") + "; take one of them out")
            return []
        }
        guard around.composites.count < ElementReader.deepest else {
            report.fault("composites are nested more than \(ElementReader.deepest) deep; no Core Data model needs that")
            return []
        }
        var inner = around
        inner.composites.append(type)
        inner.isOptional = composite.isOptional
        // The key paths that the composite's own user info gives it.
        let prefixes = around.entity.keyRules.keys(of: composite, in: around.entity.name) ?? [composite.name]
        let prefixBytes = prefixes.reduce(0) { $0 + $1.utf8.count }
        inner.prefixes = prefixes
        var parts: [AttributeSource] = []
        for part in definition.children(named: "attribute") {
            guard partsLeft >= 0 else { return [] }
            partsLeft -= 1 + (prefixBytes + prefixes.count * UserInfo(of: part).byteCount) / Self.keyBytesPerPart
            guard partsLeft >= 0 else {
                report.fault(
                    "the composites of the model have more than \(ModelLimits.mostPropertiesInAll) parts, each counted as "
                        + "often as an attribute has it, and long keys several times; split the model")
                return []
            }
            guard let name = part.text("name") else {
                report.fault("a part of the composite \"\(type)\" has no name; give it one in Xcode")
                continue
            }
            parts += read(part, name: "\(composite.name)_\(name)", within: inner)
        }
        let names = parts.map(\.name).joined(separator: ", ")
        report.taken("the attribute is composite; its parts are \(names.isEmpty ? "none" : names)")
        return parts
    }

    /// The element that lists the parts: the composite itself, or the one of the model that it names. Versions of the
    /// format name it by different attributes, so every one is looked at.
    private func definition(of composite: AttributeSource) -> (SourceElement, String)? {
        if !composite.element.children(named: "attribute").isEmpty { return (composite.element, composite.name) }
        let attributes = composite.element.attributes.filter { $0.key != "name" && $0.key != "attributeType" }
        let named = attributes.sorted { $0.key < $1.key }.compactMap { composites[$0.value] }.first
        let capitalized = composite.name.prefix(1).uppercased() + composite.name.dropFirst()
        guard let found = named ?? composites[capitalized] ?? composites[composite.name] else { return nil }
        return (found, found["name"] ?? composite.name)
    }
}
