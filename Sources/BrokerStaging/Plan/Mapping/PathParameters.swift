internal import BrokerJSON

/// The values that a job's path gave the parameters of a route's pattern: for records that bring none of their own.
///
/// Immutable; it holds the text that its values are of.
public final class PathParameters: Sendable {
    private let document: JSONDocument
    private let names: [[UInt8]]
    /// Bytes of memory that it takes.
    let memory: Int

    /// - Parameter values: few, in the pattern's order.
    public init(_ values: [(name: String, value: String)]) {
        names = values.map { Array($0.name.utf8) }
        var writer = JSONWriter()
        writer.array { writer in
            for value in values { writer.string(value.value) }
        }
        do {
            document = try JSONDocument(parsing: JSONText(copying: writer.bytes))
        } catch {
            preconditionFailure("what was just written is JSON: \(error)")
        }
        memory = 256 + document.text.count + document.memory + names.reduce(0) { $0 + 48 + $1.count }
    }

    /// The value of the parameter of that name; nil when there is none. Valid while this object lives.
    func value(of name: String) -> JSONValue? {
        guard let place = names.firstIndex(where: { $0.elementsEqual(name.utf8) }) else { return nil }
        var elements = document.root.elements
        for _ in 0..<place { _ = elements.next() }
        return elements.next()
    }
}
