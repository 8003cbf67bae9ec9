internal import BrokerFastJSON
internal import BrokerJSON

/// What a record changes in the column `_extra` of its object.
///
/// As text: entries of JSON with commas between them. `[path,value]` stores a value, `[path]` takes one away; a path is an array
/// of keys. They take effect in their order.
package enum ExtraValues {
    /// The maximum number of an object's extra values, and of one record. Each later record of the object costs time for all of them.
    package static let mostKeys = 2_000

    /// Adds an entry.
    ///
    /// - Parameters:
    ///   - path: an array of keys, as JSON.
    ///   - value: as JSON; nil takes away what is there.
    static func add(_ path: [UInt8], _ value: UnsafeBufferPointer<UInt8>?, to entries: inout [UInt8]) {
        if !entries.isEmpty { entries.append(UInt8(ascii: ",")) }
        entries.append(UInt8(ascii: "["))
        entries += path
        if let value {
            entries.append(UInt8(ascii: ","))
            entries += value
        }
        entries.append(UInt8(ascii: "]"))
    }

    static func path(_ keys: [String]) -> [UInt8] {
        var writer = JSONWriter()
        writer.array(of: keys) { $1.string($0) }
        return writer.bytes
    }

    /// The column after the entries.
    ///
    /// - Parameter column: before them; nil without a value. What is no JSON object, another program has stored, and is replaced.
    /// - Returns: nil when nothing is left.
    /// - Throws: when there would be more than ``mostKeys``.
    package static func applied(
        _ entries: some Collection<UInt8>, to column: UnsafeBufferPointer<UInt8>?
    ) throws(TooManyExtraKeys) -> [UInt8]? {
        let object = ExtraObject(column.map { Array($0) })
        guard let entries = JSONDocument(extra: [UInt8(ascii: "[")] + entries + [UInt8(ascii: "]")]) else {
            preconditionFailure("what staging has written is JSON")
        }
        for entry in entries.root.elements {
            var parts = entry.elements
            let path = parts.next()!
            object.set(path.elements.map { Array($0.bytes) }[...], parts.next()?.jsonText)
        }
        guard object.count <= mostKeys else { throw TooManyExtraKeys() }
        return object.text
    }
}

package struct TooManyExtraKeys: Error {}

extension JSONDocument {
    /// Nil for what is no JSON. The values of a record are deeper here than in it.
    convenience init?(extra text: [UInt8]) {
        do throws(JSONError) {
            try self.init(fast: JSONText(copying: text), maximumDepth: JSONDocument.defaultMaximumDepth + 8)
        } catch {
            return nil
        }
    }
}

/// A JSON object that changes. Its members are in the order of their keys' bytes, however they came there.
private final class ExtraObject {
    private enum Content {
        case text([UInt8])
        case object(ExtraObject)
    }

    private var members: [(key: [UInt8], content: Content?)] = []
    private var places: [[UInt8]: Int] = [:]

    /// - Parameter text: an object; anything else has no members.
    init(_ text: [UInt8]?) {
        guard let document = text.flatMap(JSONDocument.init(extra:)) else { return }
        for (key, member) in document.root.members { put(Array(key.bytes), .text(member.jsonText)) }
    }

    private func put(_ key: [UInt8], _ content: Content?) {
        if let place = places[key] {
            members[place].content = content
        } else if content != nil {
            places[key] = members.count
            members.append((key, content))
        }
    }

    /// - Parameter text: nil takes away what is at the path.
    func set(_ path: ArraySlice<[UInt8]>, _ text: [UInt8]?) {
        guard let key = path.first else { return }
        let rest = path.dropFirst()
        guard !rest.isEmpty else { return put(key, text.map(Content.text)) }
        let inner: ExtraObject
        switch places[key].flatMap({ members[$0].content }) {
        case .object(let object): inner = object
        case .text(let text): inner = ExtraObject(text)
        case nil where text == nil: return
        case nil: inner = ExtraObject(nil)
        }
        inner.set(rest, text)
        put(key, .object(inner))
    }

    /// The members with a value, and those of the objects that changed.
    var count: Int {
        members.reduce(0) { count, member in
            switch member.content {
            case nil: count
            case .text: count + 1
            case .object(let object): count + object.count
            }
        }
    }

    /// Nil without members.
    var text: [UInt8]? {
        var writer = JSONWriter()
        var isEmpty = true
        writer.object { writer in
            for (key, content) in members.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
                let text: [UInt8]? =
                    switch content {
                    case .text(let text): text
                    case .object(let object): object.text
                    case nil: nil
                    }
                guard let text else { continue }
                isEmpty = false
                writer.member(String(decoding: key, as: UTF8.self), raw: text)
            }
        }
        return isEmpty ? nil : writer.bytes
    }
}
