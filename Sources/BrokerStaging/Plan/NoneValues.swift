internal import BrokerJSON
internal import BrokerModel

/// The values of a relationship that mean no object (`none` of the model), besides null.
struct NoneValues: Sendable {
    private var texts: [[UInt8]] = []
    private var numbers: [Int64] = []
    private var kinds: Set<JSONValue.Kind> = []
    let isEmpty: Bool

    /// - Parameter values: as the model's reader takes them: texts, whole numbers, booleans and empty arrays.
    init(_ values: [JSONFragment]) {
        isEmpty = values.isEmpty
        for value in values {
            guard let document = try? JSONDocument(parsing: JSONText(copying: Array(value.text.utf8))) else {
                preconditionFailure("the model's reader has read it")
            }
            let root = document.root
            switch root.kind {
            case .string: texts.append(Array(root.bytes))
            case .number: if let number = root.int64 { numbers.append(number) }
            default: kinds.insert(root.kind)
            }
        }
    }

    func contains(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .string: texts.contains { $0.elementsEqual(value.bytes) }
        case .number: NumberText(value.bytes)?.int64.map(numbers.contains) ?? false
        case .array: kinds.contains(.array) && value.elementCount == 1
        default: kinds.contains(value.kind)
        }
    }
}
