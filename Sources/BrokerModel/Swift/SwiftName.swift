/// Names of a model as Swift writes them.
enum SwiftName {
    private static let keywords: Set<String> = [
        "as", "associatedtype", "break", "case", "catch", "class", "continue", "default", "defer", "deinit", "do",
        "else",
        "enum", "extension", "fallthrough", "false", "fileprivate", "for", "func", "guard", "if", "import", "in",
        "init",
        "inout", "internal", "is", "let", "nil", "operator", "package", "precedencegroup", "private", "protocol",
        "public",
        "repeat", "rethrows", "return", "self", "Self", "static", "struct", "subscript", "super", "switch", "throw",
        "throws", "true", "try", "typealias", "var", "where", "while",
    ]

    /// Names that a struct cannot have without a conflict with what the file uses.
    private static let taken: Set<String> = [
        "Array", "Bool", "CodingKey", "Data", "Date", "Decimal", "Decoder", "Double", "Encoder", "Float", "Int16",
        "Int32",
        "Int64", "Optional", "Protocol", "RawJSON", "RecordPath", "Self", "Set", "String", "Type", "URL", "UUID",
    ]

    static func type(_ name: String) -> String {
        var type = identifier(name)
        if taken.contains(type) || keywords.contains(type) { type += "Record" }
        return type
    }

    /// As a declaration or a parameter has it.
    static func member(_ name: String) -> String {
        let name = identifier(name)
        return keywords.contains(name) ? "`\(name)`" : name
    }

    /// Letters, digits and underscores; names of models have no others but those of Unicode.
    private static func identifier(_ name: String) -> String {
        var text = ""
        for scalar in name.unicodeScalars {
            let isAllowed = scalar == "_" || scalar.properties.isXIDContinue
            text.unicodeScalars.append(isAllowed ? scalar : "_")
        }
        guard let first = text.unicodeScalars.first, first == "_" || first.properties.isXIDStart else {
            return "_" + text
        }
        return text
    }

    static func literal(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": literal += "\\" + String(scalar)
            case "\n": literal += "\\n"
            case "\r": literal += "\\r"
            default:
                if scalar.value < 0x20 {
                    literal += "\\u{" + String(scalar.value, radix: 16) + "}"
                } else {
                    literal.unicodeScalars.append(scalar)
                }
            }
        }
        return literal + "\""
    }
}
