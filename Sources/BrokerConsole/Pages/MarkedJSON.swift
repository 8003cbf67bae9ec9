import BrokerModel

/// A JSON value with indentation, up to a number of characters, in which the values at some places are marked.
struct MarkedJSON {
    private(set) var html: HTML = ""
    /// The value had more characters.
    private(set) var isCut = false
    private let places: Set<String>
    private var room: Int

    /// - Parameter places: as JSON Pointers.
    init(_ value: ModelValue, at places: Set<String>, longest: Int) {
        self.places = places
        room = longest
        write(value, at: "", indent: "\n")
    }

    private mutating func write(_ value: ModelValue, at path: String, indent: String) {
        let isMarked = !path.isEmpty && places.contains(path)
        if isMarked { html += "<mark>" }
        switch value.content {
        case .array(let elements) where !elements.isEmpty:
            write(elements.count, in: ("[", "]"), indent) { writer, index, indent in
                writer.write(elements[index], at: "\(path)/\(index)", indent: indent)
            }
        case .object(let members) where !members.isEmpty:
            write(members.count, in: ("{", "}"), indent) { writer, index, indent in
                let name = members[index].key
                writer.add(ModelValue.text(name).json + ": ")
                let escaped = name.replacing("~", with: "~0").replacing("/", with: "~1")
                writer.write(members[index].value, at: "\(path)/\(escaped)", indent: indent)
            }
        default: add(value.json)
        }
        if isMarked { html += "</mark>" }
    }

    private mutating func write(
        _ count: Int, in brackets: (String, String), _ indent: String, _ element: (inout Self, Int, String) -> Void
    ) {
        add(brackets.0)
        for index in 0..<count where !isCut {
            add((index > 0 ? "," : "") + indent + "  ")
            element(&self, index, indent + "  ")
        }
        add(indent + brackets.1)
    }

    private mutating func add(_ text: String) {
        guard !isCut else { return }
        let part = text.cut(to: room)
        isCut = part != text
        room -= part.unicodeScalars.count
        html += "\(part)"
    }
}
