internal import BrokerModel

/// Makes an object of a model's document. All of its values have one position, unless they come with their own.
struct DocumentWriter {
    let place: SourcePlace
    private(set) var members: [ModelValue.Member] = []

    /// - Parameter place: that of a part that is in no file, when there is none.
    init(at place: SourcePlace = .unknown) { self.place = place }

    var object: ModelValue { ModelValue(.object(members), at: place) }

    mutating func add(_ key: String, _ value: ModelValue?) {
        guard let value else { return }
        members.append(ModelValue.Member(key, at: value.place, value))
    }

    mutating func add(_ key: String, _ text: String?) {
        guard let text else { return }
        add(key, ModelValue(.string(text), at: place))
    }

    mutating func add(_ key: String, _ flag: Bool) { add(key, ModelValue(.bool(flag), at: place)) }

    mutating func add(_ key: String, number: Int) { add(key, ModelValue(.number("\(number)"), at: place)) }

    mutating func add(_ key: String, _ texts: [String]) { add(key, ModelValue(texts, at: place)) }

    /// Adds paths with dots between their keys.
    mutating func add(_ key: String, keyPaths texts: [String]) {
        // A text alone in an array is one key as it is.
        if texts.count == 1, texts[0].contains(".") { add(key, texts[0]) } else { add(key, texts) }
    }

    mutating func add(_ key: String, paths: [[String]]) { add(key, KeyPathForm.value(paths, at: place)) }

    /// Nothing when there are no lists.
    mutating func add(_ key: String, lists: [[String]]) {
        guard !lists.isEmpty else { return }
        add(key, ModelValue(.array(lists.map { ModelValue($0, at: place) }), at: place))
    }

    /// Nothing when the object has no members.
    mutating func add(_ key: String, nonEmpty object: DocumentWriter) {
        if !object.members.isEmpty { add(key, object.object) }
    }
}

extension String {
    /// The keys between its dots.
    var keyPath: [String] { split(separator: ".", omittingEmptySubsequences: false).map(String.init) }
}
/// The type that the values of a column or a key are taken for, and why.
struct TypeGuess {
    let type: AttributeType
    /// A further field of the attribute, such as its `format`.
    let field: (name: String, value: ModelValue)?
    /// The digits of a second's fraction of a date.
    let precision: Int
    /// Whole numbers that a double does not hold are among the values.
    let hasBigIntegers: Bool
    /// The end of a sentence; empty where the type says it.
    let reason: String

    init(
        _ type: AttributeType, _ reason: String = "", field: (name: String, value: ModelValue)? = nil,
        format: String? = nil, precision: Int = Attribute.defaultPrecision, hasBigIntegers: Bool = false
    ) {
        (self.type, self.reason, self.precision, self.hasBigIntegers) = (type, reason, precision, hasBigIntegers)
        self.field = format.map { ("format", .text($0)) } ?? field
    }

    /// The format of seconds or milliseconds since 1970.
    static let unixTime = "UnixTime"

    var format: String? { field?.name == "format" ? field?.value.string : nil }

    func add(to writer: inout DocumentWriter) {
        writer.add("type", type.rawValue)
        if let field { writer.add(field.name, field.value) }
        if precision != Attribute.defaultPrecision { writer.add("precision", number: precision) }
    }
}
