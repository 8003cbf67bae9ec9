internal import BrokerModel

/// One element of a model's XML, with the place of its `<`.
struct SourceElement {
    let name: String
    let attributes: [String: String]
    let place: SourcePlace
    var children: [SourceElement] = []

    /// An attribute of the XML; nil when it is absent. One that is empty is there, and empty.
    subscript(attribute: String) -> String? { attributes[attribute] }

    func children(named name: String) -> [SourceElement] { children.filter { $0.name == name } }

    /// Whether an attribute says yes in one of the ways in which files of the field do; nil when it says neither.
    func flag(_ attribute: String) -> Bool? { self[attribute].flatMap(Self.flag) }

    static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "yes", "true", "1": true
        case "no", "false", "0": false
        default: nil
        }
    }
}
