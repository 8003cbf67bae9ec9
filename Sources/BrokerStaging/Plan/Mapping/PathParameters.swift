internal import BrokerJSON

/// The values of a route pattern's parameters in the path of a job. A record without a value of its own takes them.
///
/// Immutable; owns the text of its values.
package final class PathParameters: Sendable {
    private let document: JSONDocument
    private let names: [[UInt8]]
    /// Memory use in bytes.
    let memory: Int

    /// - Parameter values: few, in the order of the pattern.
    package init(_ values: [(name: String, value: String)]) {
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

    /// Returns the value of the parameter of that name; nil when there is none. Valid while this object lives.
    func value(of name: String) -> JSONValue? {
        guard let index = names.firstIndex(where: { $0.elementsEqual(name.utf8) }) else { return nil }
        var elements = document.root.elements
        for _ in 0..<index { _ = elements.next() }
        return elements.next()
    }
}
