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
        if let keys { writer.add("key", keys) }
        if let renamed = element["elementID"] ?? element["renamingIdentifier"], !renamed.isEmpty, renamed != source.name
        {
            if source.prefixes == nil {
                writer.add("renamedFrom", renamed)
                report.taken("renaming identifier \(renamed)")
            } else {
                report.leftOut("renaming identifier \(renamed): parts of composites are not renamed")
            }
        }
        addOptional(to: &writer)
        let defaultValue = defaultValue()
        writer.add("default", defaultValue)
        addDefaultWhenMissing(hasDefault: defaultValue != nil, to: &writer)
        addFormat(to: &writer)
        addLimits(to: &writer)
        if element.flag("indexed") == true { writer.add("indexed", true) }
        noteWhatHasNoEffect()
        return writer.object
    }

    private func addOptional(to writer: inout DocumentWriter) {
        guard !isIdentity else {
            if source.isOptional { report.inferred("required, though the model says optional: it is of the identity") }
            return
        }
        if !source.isOptional { writer.add("optional", false) }
    }

    private func addDefaultWhenMissing(hasDefault: Bool, to writer: inout DocumentWriter) {
        guard source.userInfo.flag("useDefaultValueWhenNotPresent") else { return }
        guard hasDefault else {
            return report.passedOver("userInfo useDefaultValueWhenNotPresent: the attribute has no default")
        }
        writer.add("defaultWhenMissing", true)
        report.taken("userInfo useDefaultValueWhenNotPresent: a record that does not bring it brings the default")
    }

    /// A failover of MagicalRecord, as its mapped keys have: the formats are tried in this order.
    static let dateFormatKeys = ["dateFormat"] + (0...9).map { "dateFormat.\($0)" }

    private func addFormat(to writer: inout DocumentWriter) {
        let keys = Self.dateFormatKeys.filter { source.userInfo[$0] != nil }
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

    private func noteWhatHasNoEffect() {
        if let name = element["valueTransformerName"], !name.isEmpty {
            report.leftOut("value transformer \(name): the value is stored as the JSON that is received")
        }
        UserInfoVocabulary.attribute.noteUnfollowed(source.userInfo, on: report)
    }
}

// MARK: - Defaults

extension AttributeConversion {
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
        return number(text) ?? ModelValue(.string(text), at: element.place)
    }

    /// The text as a number of JSON's, where the type is one and it is written as one.
    private func number(_ text: String) -> ModelValue? {
        guard source.type.isNumber, text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/) != nil else {
            return nil
        }
        return ModelValue(.number(text), at: element.place)
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
}

// MARK: - Limits

extension AttributeConversion {
    private func addLimits(to writer: inout DocumentWriter) {
        addPattern(to: &writer)
        let isDate = source.type == .date
        let bounds = [
            ("min", "minLength", isDate ? "minDateTimeInterval" : "minValueString"),
            ("max", "maxLength", isDate ? "maxDateTimeInterval" : "maxValueString"),
        ]
        for (bound, length, attribute) in bounds {
            guard let text = element[attribute], !text.isEmpty else { continue }
            switch source.type {
            case .date: writer.add(bound, date(text, attribute))
            case .string, .uri, .uuid:
                guard let number = Double(text), let count = Int(exactly: number), count >= 0 else {
                    report.fault("\(attribute)=\"\(text)\" of a text is its length, a whole number from 0 on")
                    continue
                }
                writer.add(length, number: count)
            case let type where type.isNumber:
                writer.add(bound, number(text) ?? ModelValue(.string(text), at: element.place))
            default: report.leftOut("\(attribute)=\"\(text)\": values of type \(source.type.rawValue) have no limits")
            }
        }
    }

    private func addPattern(to writer: inout DocumentWriter) {
        guard let pattern = element["regularExpressionString"], !pattern.isEmpty else { return }
        guard source.type == .string || source.type == .uri || source.type == .uuid else {
            return report.leftOut("the regular expression: values of type \(source.type.rawValue) are no text")
        }
        // Core Data's must match the whole value, a model's some part of it.
        writer.add("pattern", "\\A(?:\(pattern))\\z")
    }
}
